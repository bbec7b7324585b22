"""Windows over events in time: the events on a line, and below it the windows of each kind with their counts."""

from dataclasses import dataclass
from typing import Any, Final

from cdc.lab.figures.canvas import (
    FAINT,
    HEAD,
    LETTER,
    MARGIN,
    Tone,
    draw_arrow,
    draw_box,
    draw_dot,
    draw_line,
    finish,
    open_drawing,
    write,
)

WIDTH: Final = 720.0
LANE: Final = 22.0
"""Height of a row of windows; those that overlap take more rows."""


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` up to, and without, `end`."""

    start: float
    end: float
    label: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class WindowKind:
    """All windows of one kind, in the order of their starts."""

    name: str
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class WindowFigure:
    """A figure. `moments`: the times of the events, in `unit`."""

    title: str
    moments: tuple[float, ...]
    kinds: tuple[WindowKind, ...]
    unit: str = "s"

    def draw(self) -> str:
        """Draw it; returns the text of an SVG file."""
        left = MARGIN + 14 + LETTER * max(len(kind.name) for kind in self.kinds)
        rows = [place_in_rows(kind.windows) for kind in self.kinds]
        heights = [LANE * (max(places, default=0) + 1) + 18 for places in rows]
        drawing = open_drawing(left + WIDTH + MARGIN, HEAD + 40 + sum(heights) + 16, self.title)
        last = max([*self.moments, *(window.end for kind in self.kinds for window in kind.windows)])
        scale = (WIDTH - 24) / (last or 1.0)
        line = HEAD + 12.0
        draw_arrow(drawing, (left, line), (left + WIDTH, line))
        write(drawing, f"{last:,.4g} {self.unit}", left + last * scale, line + 16, anchor="end")
        for moment in self.moments:
            x = left + moment * scale
            draw_line(drawing, (x, line), (x, HEAD + 40 + sum(heights)), FAINT, dashed=True)
            draw_dot(drawing, x, line, Tone.PLAIN)
        top = HEAD + 40.0
        for kind, places, height in zip(self.kinds, rows, heights, strict=True):
            write(drawing, kind.name, MARGIN, top + (height - 18) / 2)
            for window, place in zip(kind.windows, places, strict=True):
                _draw_window(drawing, window, left, scale, top + LANE * place)
            top += height
        return finish(drawing)


def place_in_rows(windows: tuple[Window, ...]) -> list[int]:
    """For each window, in the order of their starts, the first row in which it meets no other."""
    free = list[float]()
    places = []
    for window in windows:
        place = next((row for row, end in enumerate(free) if end <= window.start), len(free))
        free[place : place + 1] = [window.end]
        places.append(place)
    return places


def _draw_window(drawing: Any, window: Window, left: float, scale: float, top: float) -> None:
    start, end = left + window.start * scale, left + window.end * scale
    draw_box(drawing, (start + 1, top), (max(end - start - 2, 2), LANE - 4), window.tone, window.label)
