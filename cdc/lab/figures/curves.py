"""Curves: how a number changes in time, one curve a way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import drawsvg

from cdc.lab.figures.canvas import FAINT, HEAD, MARGIN, SMALL, Pen, Point

WIDTH: Final = 560.0
HEIGHT: Final = 260.0
LEGEND: Final = 190.0
COLORS: Final = ("#b3362b", "#3b6ea5", "#2f7d4f", "#8a5a9e", "#b07d2b", "#555555")


@dataclass(frozen=True, slots=True)
class Curves:
    """A figure. The points of each curve: a time, in `unit`, and a number of the things `counted`; in order."""

    title: str
    curves: Mapping[str, Sequence[Point]]
    unit: str
    counted: str

    def draw(self) -> str:
        left, bottom = MARGIN + 40, HEAD + 20 + HEIGHT
        pen = Pen(left + WIDTH + LEGEND + MARGIN, bottom + 40, self.title)
        last = max(time for points in self.curves.values() for time, _ in points) or 1.0
        most = max(number for points in self.curves.values() for _, number in points) or 1.0
        pen.arrow((left, bottom), (left + WIDTH + 14, bottom))
        pen.line((left, bottom), (left, bottom - HEIGHT))
        pen.line((left, bottom - HEIGHT), (left + WIDTH, bottom - HEIGHT), FAINT, dashed=True)
        pen.write(f"{most:,.0f}", left - 8, bottom - HEIGHT, anchor="end")
        pen.write("0", left - 8, bottom, anchor="end")
        pen.write(self.counted, left, bottom - HEIGHT - SMALL - 2)
        pen.write(f"{last:.3g} {self.unit}", left + WIDTH, bottom + 16, anchor="end")
        for place, (name, points) in enumerate(self.curves.items()):
            color, y = COLORS[place % len(COLORS)], bottom - HEIGHT + 8 + place * 22
            corners = [at for t, n in points for at in (left + t / last * WIDTH, bottom - n / most * HEIGHT)]
            pen.draw(drawsvg.Lines(*corners, fill="none", stroke=color, stroke_width=1.8))
            pen.line((left + WIDTH + 20, y), (left + WIDTH + 40, y), color)
            pen.write(name, left + WIDTH + 46, y)
        return pen.finish()
