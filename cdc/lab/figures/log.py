"""Logs with offsets: a row of cells a partition, the oldest to the left, and those who read in it below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdc.lab.figures.canvas import HEAD, LETTER, MARGIN, SMALL, Pen, Tone

CELL = 30.0  # width and height of a cell; wider if a text needs it
ROW = 68.0  # height of a partition: its offsets and its cells
LINE = SMALL + 3.0  # height of the name of a reader


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
class LogFigure:
    """A figure of partitions, with those of their messages that are drawn, in order; and their readers."""

    title: str
    partitions: Mapping[str, Sequence[Cell]]
    readers: Mapping[str, Sequence[ReaderMark]] = field(default_factory=dict)

    def draw(self) -> str:
        left = MARGIN + 14 + LETTER * max(map(len, self.partitions))
        most = max(map(len, self.partitions.values()))
        longest = max((len(cell.text) for cells in self.partitions.values() for cell in cells), default=0)
        width = max(CELL, LETTER * longest + 8)
        # one cell more: a reader may stand behind the last message
        paper = max(left + width * (most + 1) + MARGIN, MARGIN * 2 + 9 * len(self.title))
        pen = Pen(paper, HEAD + sum(map(self._measure, self.partitions)), self.title)
        top = float(HEAD)
        for name, cells in self.partitions.items():
            pen.write(name, MARGIN, top + 24 + CELL / 2)
            _draw_cells(pen, cells, left, top + 24, width)
            for level, reader in enumerate(self.readers.get(name, ())):
                _draw_reader(pen, reader, cells, (left, top + 24 + CELL, width), level)
            top += self._measure(name)
        return pen.finish()

    def _measure(self, name: str) -> float:
        readers = self.readers.get(name, ())
        return ROW + (14 + LINE * len(readers) if readers else 0)


def _draw_cells(pen: Pen, cells: Sequence[Cell], left: float, top: float, width: float) -> None:
    for place, cell in enumerate(cells):
        x = left + width * place
        pen.box((x, top), (width, CELL), cell.tone, cell.text)
        pen.write(str(cell.offset), x + width / 2, top - SMALL / 2 - 3, anchor="middle", tone="#777777")


def _draw_reader(
    pen: Pen, reader: ReaderMark, cells: Sequence[Cell], below: tuple[float, float, float], level: int
) -> None:
    """Draw a reader under the first cell at or behind its offset, or behind the last one."""
    left, top, width = below
    place = next((place for place, cell in enumerate(cells) if cell.offset >= reader.offset), len(cells))
    x, bottom = left + width * (place + 0.5), top + 22 + level * LINE
    pen.arrow((x, bottom), (x, top + 2), reader.tone.line)
    # to the left where there is no place to the right
    shift, anchor = (-6, "end") if place > len(cells) / 2 else (6, "start")
    pen.write(reader.name, x + shift, bottom, tone=reader.tone.line, anchor=anchor)
