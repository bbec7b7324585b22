"""A timeline: a lane for each who takes part, time to the right, arrows for what one sends to another."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from cdc.lab.figures.canvas import (
    FAINT,
    HEAD,
    LETTER,
    MARGIN,
    SMALL,
    Tone,
    draw_arrow,
    draw_box,
    draw_cross,
    draw_dot,
    draw_line,
    finish,
    open_drawing,
    write,
    write_over,
)

WIDTH = 760.0
LANE = 64.0
BOX = 24.0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens in a lane at one time; `lost` draws a cross."""

    lane: str
    at: float
    label: str = ""
    tone: Tone = Tone.PLAIN
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasts."""

    lane: str
    start: float
    end: float
    label: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one lane to another, from `start` to `end`."""

    source: str
    start: float
    target: str
    end: float
    label: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Timeline:
    """A figure. Times are in `unit`, and need not begin at 0."""

    title: str
    lanes: tuple[str, ...]
    events: tuple[Event, ...] = ()
    spans: tuple[Span, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    unit: str = "ms"

    def draw(self) -> str:
        """Draw it; returns the text of an SVG file."""
        left = MARGIN + 14 + LETTER * max(map(len, self.lanes))
        drawing = open_drawing(left + WIDTH + MARGIN, HEAD + LANE * len(self.lanes) + 34, self.title)
        scale = _Scale(left, *_find_range(self._times()))
        for lane in self.lanes:
            write(drawing, lane, MARGIN, self._height(lane))
            draw_line(drawing, (left, self._height(lane)), (left + WIDTH, self._height(lane)), FAINT)
        for span in self.spans:
            self._draw_span(drawing, scale, span)
        for arrow in self.arrows:
            self._draw_sent(drawing, scale, arrow)
        for event in self.events:
            self._draw_event(drawing, scale, event)
        self._draw_clock(drawing, scale)
        return finish(drawing)

    def _times(self) -> list[float]:
        pairs = chain(((s.start, s.end) for s in self.spans), ((a.start, a.end) for a in self.arrows))
        return [*chain.from_iterable(pairs), *(event.at for event in self.events)]

    def _height(self, lane: str) -> float:
        return HEAD + LANE * (self.lanes.index(lane) + 0.5)

    def _draw_span(self, drawing: Any, scale: "_Scale", span: Span) -> None:
        start, end = scale.at(span.start), scale.at(span.end)
        # what is too short to be seen is drawn a little longer
        width = max(end - start, 3.0)
        fits = len(span.label) * LETTER < width - 4
        middle = self._height(span.lane)
        draw_box(drawing, (start, middle - BOX / 2), (width, BOX), span.tone, span.label if fits else "")
        if span.label and not fits:
            write(drawing, span.label, start, middle - BOX / 2 - SMALL / 2 - 2)

    def _draw_sent(self, drawing: Any, scale: "_Scale", arrow: Arrow) -> None:
        start = scale.at(arrow.start), self._height(arrow.source)
        end = scale.at(arrow.end), self._height(arrow.target)
        draw_arrow(drawing, start, end, arrow.tone.line)
        if arrow.label:
            # near its beginning: at its middle it may lie on a lane
            x, y = (begin + (stop - begin) * 0.25 for begin, stop in zip(start, end, strict=True))
            write_over(drawing, arrow.label, x + 14, y)

    def _draw_event(self, drawing: Any, scale: "_Scale", event: Event) -> None:
        x, y = scale.at(event.at), self._height(event.lane)
        (draw_cross if event.lost else draw_dot)(drawing, x, y, event.tone)
        if event.label:
            # below its mark, unless the paper ends there
            most = scale.left + WIDTH + MARGIN - 4 - len(event.label) * LETTER / 2
            write_over(drawing, event.label, min(x, most), y + SMALL + 12, anchor="middle")

    def _draw_clock(self, drawing: Any, scale: "_Scale") -> None:
        y = HEAD + LANE * len(self.lanes) + 6
        draw_arrow(drawing, (scale.left, y), (scale.left + WIDTH, y))
        write(drawing, "0", scale.left, y + 14)
        write(drawing, f"{scale.last - scale.first:,.0f} {self.unit}", scale.left + WIDTH, y + 14, anchor="end")


@dataclass(frozen=True, slots=True)
class _Scale:
    """From a time to a place on the paper."""

    left: float
    first: float
    last: float

    def at(self, time: float) -> float:
        return self.left + 10 + (time - self.first) / (self.last - self.first) * (WIDTH - 30)


def _find_range(times: Sequence[float]) -> tuple[float, float]:
    first, last = (min(times), max(times)) if times else (0.0, 1.0)
    # a moment alone has no length
    return (first, last) if last > first else (first, first + 1.0)
