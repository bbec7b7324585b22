"""The pen of all figures: colours, texts, arrows. drawsvg writes the SVG."""

from enum import Enum
from typing import Any, Final

import drawsvg

FONT: Final = "Helvetica, Arial, sans-serif"
SMALL: Final = 12
INK: Final = "#333333"
FAINT: Final = "#bbbbbb"
MARGIN: Final = 24
HEAD: Final = 52
"""Height of the title."""
LETTER: Final = 6.6
"""Width of a letter of the small size, for boxes that texts must fit in."""


class Tone(Enum):
    """What a mark stands for: its line and its filling."""

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


def open_drawing(width: float, height: float, title: str) -> Any:
    """Begin a figure with its title on white: a page may be dark."""
    drawing = drawsvg.Drawing(width, height)
    drawing.append(drawsvg.Rectangle(0, 0, width, height, fill="white"))
    drawing.append(drawsvg.Text(title, 15, MARGIN, 30, font_family=FONT, fill=INK, font_weight="bold"))
    return drawing


def write(drawing: Any, text: str, x: float, y: float, *, tone: str = INK, anchor: str = "start") -> None:
    """Write a small text, whose vertical middle is at `y`."""
    drawing.append(_make_text(text, x, y, fill=tone, text_anchor=anchor))


def write_over(drawing: Any, text: str, x: float, y: float, *, anchor: str = "start") -> None:
    """Write a small text with a white edge, so that it can be read across lines."""
    edge = {"stroke": "white", "stroke_width": 4, "paint_order": "stroke"}
    drawing.append(_make_text(text, x, y, fill=INK, text_anchor=anchor, **edge))


def _make_text(text: str, x: float, y: float, **attributes: Any) -> Any:
    return drawsvg.Text(text, SMALL, x, y, font_family=FONT, dominant_baseline="central", **attributes)


def draw_line(
    drawing: Any, start: tuple[float, float], end: tuple[float, float], color: str = INK, *, dashed: bool = False
) -> None:
    more = {"stroke_dasharray": "4 3"} if dashed else {}
    drawing.append(drawsvg.Line(*start, *end, stroke=color, stroke_width=1.3, **more))


def draw_arrow(drawing: Any, start: tuple[float, float], end: tuple[float, float], color: str = INK) -> None:
    """Draw a line with a head at its end."""
    head = drawsvg.Marker(-0.1, -0.5, 1, 0.5, scale=8, orient="auto")
    head.append(drawsvg.Lines(-0.1, -0.45, -0.1, 0.45, 0.9, 0, fill=color, close=True))
    # ends before the point: the head is longer than the line
    length = max(((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5, 1e-9)
    short = max(length - 7, 0) / length
    tip = start[0] + (end[0] - start[0]) * short, start[1] + (end[1] - start[1]) * short
    drawing.append(drawsvg.Line(*start, *tip, stroke=color, stroke_width=1.3, marker_end=head))


def draw_box(drawing: Any, corner: tuple[float, float], size: tuple[float, float], tone: Tone, text: str = "") -> None:
    """Draw a box with a text in its middle."""
    drawing.append(drawsvg.Rectangle(*corner, *size, rx=2, fill=tone.fill, stroke=tone.line, stroke_width=1.1))
    if text:
        write(drawing, text, corner[0] + size[0] / 2, corner[1] + size[1] / 2, anchor="middle")


def draw_cross(drawing: Any, x: float, y: float, tone: Tone) -> None:
    """Draw a cross, for what is lost or dies."""
    for down in (-4, 4):
        drawing.append(drawsvg.Line(x - 4, y - down, x + 4, y + down, stroke=tone.line, stroke_width=2))


def draw_dot(drawing: Any, x: float, y: float, tone: Tone) -> None:
    drawing.append(drawsvg.Circle(x, y, 4, fill=tone.line))


def finish(drawing: Any) -> str:
    """End a figure; returns the text of its file."""
    text: str = drawing.as_svg()
    return text
