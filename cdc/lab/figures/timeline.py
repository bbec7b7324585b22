"""A timeline: a lane for each who takes part, time to the right, arrows for what one sends to another."""

from collections.abc import Sequence
from dataclasses import dataclass

from cdc.lab.figures.canvas import FAINT, HEAD, LETTER, MARGIN, SMALL, Pen, Tone

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
    lanes: Sequence[str]
    events: Sequence[Event] = ()
    spans: Sequence[Span] = ()
    arrows: Sequence[Arrow] = ()
    unit: str = "ms"

    def draw(self) -> str:
        paper = _Paper(self)
        paper.draw_lanes()
        for span in self.spans:
            paper.draw_span(span)
        for arrow in self.arrows:
            paper.draw_sent(arrow)
        for event in self.events:
            paper.draw_event(event)
        paper.draw_clock(self.unit)
        return paper.pen.finish()


class _Paper:
    """The lanes, and the place of each time on them."""

    def __init__(self, figure: Timeline) -> None:
        lasting: list[Span | Arrow] = [*figure.spans, *figure.arrows]
        bounds = [at for each in lasting for at in (each.start, each.end)]
        times = [*bounds, *(event.at for event in figure.events)] or [0.0]
        self._first, last = min(times), max(times)
        # a moment alone has no length
        self._length = last - self._first or 1.0
        self._lanes = list(figure.lanes)
        self._left = MARGIN + 14 + LETTER * max(map(len, self._lanes))
        self.pen = Pen(self._left + WIDTH + MARGIN, HEAD + LANE * len(self._lanes) + 34, figure.title)

    def _place(self, time: float, lane: str) -> tuple[float, float]:
        x = self._left + 10 + (time - self._first) / self._length * (WIDTH - 30)
        return x, HEAD + LANE * (self._lanes.index(lane) + 0.5)

    def draw_lanes(self) -> None:
        for lane in self._lanes:
            _, y = self._place(self._first, lane)
            self.pen.write(lane, MARGIN, y)
            self.pen.line((self._left, y), (self._left + WIDTH, y), FAINT)

    def draw_span(self, span: Span) -> None:
        (start, middle), (end, _) = self._place(span.start, span.lane), self._place(span.end, span.lane)
        # one too short to be seen is drawn a little longer
        width = max(end - start, 3.0)
        fits = len(span.label) * LETTER < width - 4
        self.pen.box((start, middle - BOX / 2), (width, BOX), span.tone, span.label if fits else "")
        if span.label and not fits:
            self.pen.write(span.label, start, middle - BOX / 2 - SMALL / 2 - 2)

    def draw_sent(self, arrow: Arrow) -> None:
        start, end = self._place(arrow.start, arrow.source), self._place(arrow.end, arrow.target)
        self.pen.arrow(start, end, arrow.tone.line)
        if arrow.label:
            # near its beginning: at its middle it may lie on a lane
            x, y = (begin + (stop - begin) * 0.25 for begin, stop in zip(start, end, strict=True))
            self.pen.write_over(arrow.label, x + 14, y)

    def draw_event(self, event: Event) -> None:
        x, y = self._place(event.at, event.lane)
        (self.pen.cross if event.lost else self.pen.dot)(x, y, event.tone)
        if event.label:
            # below its mark, unless the paper ends there
            most = self._left + WIDTH + MARGIN - 4 - len(event.label) * LETTER / 2
            self.pen.write_over(event.label, min(x, most), y + SMALL + 12, anchor="middle")

    def draw_clock(self, unit: str) -> None:
        y = HEAD + LANE * len(self._lanes) + 6
        self.pen.arrow((self._left, y), (self._left + WIDTH, y))
        self.pen.write("0", self._left, y + 14)
        self.pen.write(f"{self._length:,.0f} {unit}", self._left + WIDTH, y + 14, anchor="end")
