"""Windows over events in time: the events on a line, and below it the windows of each kind with their counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cdc.lab.figures.canvas import FAINT, HEAD, LETTER, MARGIN, Pen, Tone

WIDTH: Final = 720.0
LANE: Final = 22.0  # height of a row of windows; those that overlap take more rows


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` up to, and without, `end`."""

    start: float
    end: float
    label: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class WindowFigure:
    """A figure. `moments`: the times of the events, in `unit`; `kinds`: windows in the order of their starts."""

    title: str
    moments: Sequence[float]
    kinds: Mapping[str, Sequence[Window]]
    unit: str = "s"

    def draw(self) -> str:
        left = MARGIN + 14 + LETTER * max(map(len, self.kinds))
        rows = [place_in_rows(windows) for windows in self.kinds.values()]
        heights = [LANE * (max(places, default=0) + 1) + 18 for places in rows]
        bottom = HEAD + 40 + sum(heights)
        pen = Pen(left + WIDTH + MARGIN, bottom + 16, self.title)
        last = max([*self.moments, *(window.end for windows in self.kinds.values() for window in windows)])
        scale, line = (WIDTH - 24) / (last or 1.0), HEAD + 12.0
        pen.arrow((left, line), (left + WIDTH, line))
        pen.write(f"{last:,.4g} {self.unit}", left + last * scale, line + 16, anchor="end")
        for x in (left + moment * scale for moment in self.moments):
            pen.line((x, line), (x, bottom), FAINT, dashed=True)
            pen.dot(x, line, Tone.PLAIN)
        top = HEAD + 40.0
        for (name, windows), places, height in zip(self.kinds.items(), rows, heights, strict=True):
            pen.write(name, MARGIN, top + (height - 18) / 2)
            for window, place in zip(windows, places, strict=True):
                start, end = left + window.start * scale, left + window.end * scale
                size = max(end - start - 2, 2), LANE - 4
                pen.box((start + 1, top + LANE * place), size, window.tone, window.label)
            top += height
        return pen.finish()


def place_in_rows(windows: Sequence[Window]) -> list[int]:
    """For each window, in the order of their starts, the first row in which it meets no other."""
    free = list[float]()
    places = []
    for window in windows:
        place = next((row for row, end in enumerate(free) if end <= window.start), len(free))
        free[place : place + 1] = [window.end]
        places.append(place)
    return places
