"""The pen of all figures: colours, texts, arrows. drawsvg writes the SVG."""

from enum import Enum
from typing import Any, Final

import drawsvg

FONT: Final = "Helvetica, Arial, sans-serif"
SMALL: Final = 12
INK: Final = "#333333"
FAINT: Final = "#bbbbbb"
MARGIN: Final = 24
HEAD: Final = 52  # height of the title
LETTER: Final = 6.6  # width of a letter of the small size, for boxes that texts must fit in

Point = tuple[float, float]


class Tone(Enum):
    """The meaning of a mark: its line and its filling."""

    PLAIN = ("#3b6ea5", "#dce8f4")
    GOOD = ("#2f7d4f", "#d8eede")
    BAD = ("#b3362b", "#f6dad7")
    QUIET = ("#999999", "#eeeeee")

    @property
    def line(self) -> str:
        return self.value[0]

    @property
    def fill(self) -> str:
        return self.value[1]


class Pen:
    """Draws a figure below its title, on white: a page may be dark."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._drawing = drawsvg.Drawing(width, height)
        self.draw(drawsvg.Rectangle(0, 0, width, height, fill="white"))
        self.draw(drawsvg.Text(title, 15, MARGIN, 30, font_family=FONT, fill=INK, font_weight="bold"))

    def draw(self, mark: Any) -> None:
        self._drawing.append(mark)

    def write(self, text: str, x: float, y: float, *, tone: str = INK, anchor: str = "start") -> None:
        """Write a small text, whose vertical middle is at `y`."""
        self._write(text, x, y, fill=tone, text_anchor=anchor)

    def write_over(self, text: str, x: float, y: float, *, anchor: str = "start") -> None:
        """Write a small text with a white edge, so that it can be read across lines."""
        edge = {"stroke": "white", "stroke_width": 4, "paint_order": "stroke"}
        self._write(text, x, y, fill=INK, text_anchor=anchor, **edge)

    def _write(self, text: str, x: float, y: float, **attributes: Any) -> None:
        self.draw(drawsvg.Text(text, SMALL, x, y, font_family=FONT, dominant_baseline="central", **attributes))

    def line(self, start: Point, end: Point, color: str = INK, *, dashed: bool = False) -> None:
        more = {"stroke_dasharray": "4 3"} if dashed else {}
        self.draw(drawsvg.Line(*start, *end, stroke=color, stroke_width=1.3, **more))

    def arrow(self, start: Point, end: Point, color: str = INK) -> None:
        head = drawsvg.Marker(-0.1, -0.5, 1, 0.5, scale=8, orient="auto")
        head.append(drawsvg.Lines(-0.1, -0.45, -0.1, 0.45, 0.9, 0, fill=color, close=True))
        # ends before the point: the head is longer than the line
        length = max(((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5, 1e-9)
        short = max(length - 7, 0) / length
        tip = start[0] + (end[0] - start[0]) * short, start[1] + (end[1] - start[1]) * short
        self.draw(drawsvg.Line(*start, *tip, stroke=color, stroke_width=1.3, marker_end=head))

    def box(self, corner: Point, size: Point, tone: Tone, text: str = "") -> None:
        self.draw(drawsvg.Rectangle(*corner, *size, rx=2, fill=tone.fill, stroke=tone.line, stroke_width=1.1))
        if text:
            self.write(text, corner[0] + size[0] / 2, corner[1] + size[1] / 2, anchor="middle")

    def cross(self, x: float, y: float, tone: Tone) -> None:
        for down in (-4, 4):
            self.draw(drawsvg.Line(x - 4, y - down, x + 4, y + down, stroke=tone.line, stroke_width=2))

    def dot(self, x: float, y: float, tone: Tone) -> None:
        self.draw(drawsvg.Circle(x, y, 4, fill=tone.line))

    def finish(self) -> str:
        """End the figure; returns the text of its file."""
        return str(self._drawing.as_svg())
