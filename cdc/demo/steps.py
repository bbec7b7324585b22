"""Prints the steps of a demo on stderr: headlines with the time, and notes below them."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cdc.cli import output


class Steps:
    """The steps of one demo. `seconds`: the duration of each, by its short name."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, headline: str) -> Iterator[None]:
        """Print the headline of a step; store its duration when it ends without an error."""
        began = time.monotonic()
        output.say(f"\n{_bold(f'[{began - self._began:5.1f} s] {headline}')}")
        yield
        self.seconds[name] = round(time.monotonic() - began, 3)

    def finish(self) -> None:
        """Print the duration of the whole demo, and store it as `total`."""
        self.seconds["total"] = total = round(time.monotonic() - self._began, 3)
        output.say(f"\n{_bold(f'[{total:5.1f} s] Done')}")


def note(text: str = "") -> None:
    """Print lines below a headline."""
    for line in text.splitlines() or [""]:
        output.say(f"  {line}".rstrip())


def align_columns(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format rows under their columns, as text."""
    lines = [tuple(columns), *(tuple(row) for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else text
