"""Curves: how a number changes in time, one curve a way."""

from dataclasses import dataclass
from typing import Any, Final

import drawsvg

from cdc.lab.figures.canvas import FAINT, HEAD, INK, MARGIN, SMALL, draw_arrow, draw_line, finish, open_drawing, write

WIDTH: Final = 560.0
HEIGHT: Final = 260.0
LEGEND: Final = 190.0
COLORS: Final = ("#b3362b", "#3b6ea5", "#2f7d4f", "#8a5a9e", "#b07d2b", "#555555")


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of time and number, in the order of time."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Curves:
    """A figure. `unit` is that of the times; `what` is counted."""

    title: str
    curves: tuple[Curve, ...]
    unit: str
    what: str

    def draw(self) -> str:
        """Draw it; returns the text of an SVG file."""
        left, bottom = MARGIN + 40, HEAD + 20 + HEIGHT
        drawing = open_drawing(left + WIDTH + LEGEND + MARGIN, bottom + 40, self.title)
        last = max(time for curve in self.curves for time, _ in curve.points) or 1.0
        most = max(number for curve in self.curves for _, number in curve.points) or 1.0
        draw_arrow(drawing, (left, bottom), (left + WIDTH + 14, bottom))
        draw_line(drawing, (left, bottom), (left, bottom - HEIGHT))
        draw_line(drawing, (left, bottom - HEIGHT), (left + WIDTH, bottom - HEIGHT), FAINT, dashed=True)
        write(drawing, f"{most:,.0f}", left - 8, bottom - HEIGHT, anchor="end")
        write(drawing, "0", left - 8, bottom, anchor="end")
        write(drawing, self.what, left, bottom - HEIGHT - SMALL - 2)
        write(drawing, f"{last:.3g} {self.unit}", left + WIDTH, bottom + 16, anchor="end")
        for place, curve in enumerate(self.curves):
            color = COLORS[place % len(COLORS)]
            points = [(left + t / last * WIDTH, bottom - n / most * HEIGHT) for t, n in curve.points]
            _draw_curve(drawing, points, color)
            y = bottom - HEIGHT + 8 + place * 22
            draw_line(drawing, (left + WIDTH + 20, y), (left + WIDTH + 40, y), color)
            write(drawing, curve.name, left + WIDTH + 46, y, tone=INK)
        return finish(drawing)


def _draw_curve(drawing: Any, points: list[tuple[float, float]], color: str) -> None:
    corners = [number for point in points for number in point]
    drawing.append(drawsvg.Lines(*corners, fill="none", stroke=color, stroke_width=1.8))
