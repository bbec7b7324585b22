"""Prints for people and scripts: data on stdout, everything else on stderr; colours unless NO_COLOR is set."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.cli.log_lines import log_line
from cdc.core.errors import RefusedError
from cdc.core.text.lines import WarningLine

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 100_000
"""Width of a table that is not printed to a terminal."""


def data(text: str) -> None:
    """Print a line of the result."""
    sys.stdout.write(f"{text}\n")


def say(text: str) -> None:
    """Print a line about the work; with time and level in a verb that runs for long."""
    if not log_line(text):
        sys.stderr.write(f"{text}\n")


def warn(text: str) -> None:
    say(WarningLine(f"warning: {text}"))


def as_json(value: object) -> None:
    """Print the value as one line of JSON, with sorted keys."""
    data(to_json(value))


def to_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_to_text)


def _to_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


class Instead(str):
    """A text in a column of numbers that says why there is no number."""

    __slots__ = ()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their columns, numbers to the right. Without a terminal, nothing is cut off or wrapped."""
    from rich.table import Table
    from rich.text import Text

    lines = [list(row) for row in rows]
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        numeric = bool(lines) and all(isinstance(line[index], int | float | Instead | None) for line in lines)
        grid.add_column(name, justify="right" if numeric else "left", no_wrap=not sys.stdout.isatty())
    for line in lines:
        # as Text: rich reads brackets in a plain string as markup
        grid.add_row(*(Text("" if cell is None else str(cell)) for cell in line))
    console = open_console(is_terminal=sys.stdout.isatty())
    if not sys.stdout.isatty():
        # without a terminal rich assumes 80 columns, and measures no more than its width: so the widest first
        console.width = WIDEST
        console.width = console.measure(grid).maximum
    console.print(grid)


def open_console(*, is_terminal: bool, stderr: bool = False) -> "Console":
    from rich.console import Console

    return Console(stderr=stderr, force_terminal=is_terminal, highlight=False)


def confirm(question: str, *, yes: bool) -> None:
    """Return if the answer is yes, or `yes` (the option `--yes`) is set.

    Raises RefusedError if the answer is no, or there is no terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise RefusedError(f"not confirmed: {question}", "--yes answers it where there is no terminal")
    import typer

    # on stderr: stdout may be read by a program
    if not typer.confirm(question, err=True):
        raise RefusedError("not confirmed", "nothing was done")


def relative_path(path: Path) -> str:
    """The path relative to the current folder, if it lies below that."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def fields(values: Mapping[str, object]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        data(f"{name:<{width}}  {value}")
