"""Shows on stderr how local services are downloaded and started."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdc.cli import output
from cdc.local.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Rich
    from rich.progress import TaskID


@contextmanager
def open_download_progress() -> Iterator[Progress]:
    """Open the progress for `cdc.local`: a bar of bytes on a terminal, otherwise a line per step."""
    # moving bars would fill a log file with control characters
    if not sys.stderr.isatty():
        yield LineProgress()
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Rich

    with Rich(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    ) as bars:
        yield BarProgress(bars)


class LineProgress:
    """Prints a line per download and step."""

    def start_download(self, what: str, size: int) -> None:
        output.say(f"{what}: fetching {size / 1e6:,.0f} MB")

    def advance(self, count: int) -> None:
        """Prints nothing: bytes are for bars."""

    def finish_download(self) -> None:
        """Prints nothing: the next step follows at once."""

    def step(self, part: str, what: str) -> None:
        output.say(f"{part}: {what}")


class BarProgress(LineProgress):
    """Shows one moving bar, and the steps above it."""

    def __init__(self, bars: "Rich") -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def start_download(self, what: str, size: int) -> None:
        self._task = self._bars.add_task(what, total=size)

    def advance(self, count: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, count)

    def step(self, part: str, what: str) -> None:
        self._bars.console.print(f"{part}: {what}", highlight=False)
