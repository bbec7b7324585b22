"""The findings of a lab."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Figure(Protocol):
    def draw(self) -> str:
        """Draw it; returns the text of an SVG file."""
        ...


@dataclass(frozen=True, slots=True)
class Findings:
    """The measures of one run. The first cell names its row; `sentence` says the point with this run's numbers."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    sentence: str
    figure: Figure
