"""Logs with offsets: a row of cells a partition, the oldest to the left, and those who read in it below."""

from dataclasses import dataclass
from typing import Any

from cdc.lab.figures.canvas import (
    HEAD,
    LETTER,
    MARGIN,
    SMALL,
    Tone,
    draw_arrow,
    draw_box,
    finish,
    open_drawing,
    write,
)

CELL = 30.0
"""Width and height of a cell; wider if a text needs it."""
ROW = 68.0
"""Height of a partition: its offsets and its cells."""
LINE = SMALL + 3.0
"""Height of the name of a reader."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A message at its offset; QUIET for one that is gone."""

    offset: int
    text: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class ReaderMark:
    """Who stands before which offset."""

    name: str
    offset: int
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class PartitionCells:
    """A partition with those of its messages that are drawn, in order; and its readers."""

    name: str
    cells: tuple[Cell, ...]
    readers: tuple[ReaderMark, ...] = ()


@dataclass(frozen=True, slots=True)
class LogFigure:
    """A figure of one or more partitions."""

    title: str
    partitions: tuple[PartitionCells, ...]

    def draw(self) -> str:
        """Draw it; returns the text of an SVG file."""
        left = MARGIN + 14 + LETTER * max(len(each.name) for each in self.partitions)
        most = max(len(each.cells) for each in self.partitions)
        longest = max((len(cell.text) for each in self.partitions for cell in each.cells), default=0)
        cell = max(CELL, LETTER * longest + 8)
        # one cell more: a reader may stand behind the last message
        width = max(left + cell * (most + 1) + MARGIN, MARGIN * 2 + 9 * len(self.title))
        drawing = open_drawing(width, HEAD + sum(map(_measure, self.partitions)), self.title)
        top = float(HEAD)
        for partition in self.partitions:
            _draw_partition(drawing, partition, (left, top + 24), cell)
            top += _measure(partition)
        return finish(drawing)


def _measure(partition: PartitionCells) -> float:
    return ROW + (14 + LINE * len(partition.readers) if partition.readers else 0)


def _draw_partition(drawing: Any, partition: PartitionCells, corner: tuple[float, float], width: float) -> None:
    left, top = corner
    write(drawing, partition.name, MARGIN, top + CELL / 2)
    for place, cell in enumerate(partition.cells):
        x = left + width * place
        draw_box(drawing, (x, top), (width, CELL), cell.tone, cell.text)
        write(drawing, str(cell.offset), x + width / 2, top - SMALL / 2 - 3, anchor="middle", tone="#777777")
    for level, reader in enumerate(partition.readers):
        place = _place_of(partition, reader.offset)
        x = left + width * (place + 0.5)
        bottom = top + CELL + 22 + level * LINE
        draw_arrow(drawing, (x, bottom), (x, top + CELL + 2), reader.tone.line)
        # to the left where there is no place to the right
        is_left = place > len(partition.cells) / 2
        anchor = "end" if is_left else "start"
        write(drawing, reader.name, x - 6 if is_left else x + 6, bottom, tone=reader.tone.line, anchor=anchor)


def _place_of(partition: PartitionCells, offset: int) -> int:
    """Which cell, from the left, is the first at or behind the offset; behind the last cell if there is none."""
    return next((place for place, cell in enumerate(partition.cells) if cell.offset >= offset), len(partition.cells))
