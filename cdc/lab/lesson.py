"""What a lab is, and what it finds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cdc.lab.book import Passage
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service


class Figure(Protocol):
    """A figure of what happened in one run."""

    def draw(self) -> str:
        """Draw it; returns the text of an SVG file."""
        ...


@dataclass(frozen=True, slots=True)
class Findings:
    """What one run has measured. The first cell names its row; `sentence` says the point with this run's numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    sentence: str
    figure: Figure

    def cell(self, row: str, column: str) -> Any:
        """The value in the row of this name. Raises KeyError for a row or a column that is not there."""
        by_name = {str(cells[0]): cells for cells in self.rows}
        return dict(zip(self.columns, by_name[row], strict=True))[column]


@dataclass(frozen=True, slots=True)
class Lab:
    """A lesson. `files` of this project do it for real; `parts` must be up before `run` is called."""

    passages: tuple[Passage, ...]
    files: tuple[str, ...]
    parts: tuple[Service, ...]
    run: Callable[[Workplace], Findings]
