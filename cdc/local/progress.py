"""The progress of fetching and starting services, for a caller to show."""

from typing import Final, Protocol


class Progress(Protocol):
    """Receives progress; `advance` is called from several threads at once."""

    def start_download(self, what: str, size: int) -> None:
        """A download of `size` bytes begins; `what` is the service's name."""

    def advance(self, count: int) -> None:
        """`count` more bytes have arrived; negative when a broken download restarts."""

    def finish_download(self) -> None:
        """The last download is complete and checked."""

    def step(self, part: str, what: str) -> None:
        """`part` has reached the step `what`, for instance "ready after 2.1 s"."""


class Silent:
    """Ignores progress."""

    def start_download(self, what: str, size: int) -> None:
        """Ignore it."""

    def advance(self, count: int) -> None:
        """Ignore it."""

    def finish_download(self) -> None:
        """Ignore it."""

    def step(self, part: str, what: str) -> None:
        """Ignore it."""


SILENT: Final[Progress] = Silent()
