"""What a caller may want to show while parts are fetched and started."""

from typing import Final, Protocol


class Progress(Protocol):
    """Told what happens; `received` is called from several threads at once."""

    def start_download(self, what: str, size: int) -> None:
        """A download of `size` bytes in all begins; `what` is the part's name."""

    def advance(self, count: int) -> None:
        """`count` more bytes are here; negative when a broken download begins again."""

    def finish_download(self) -> None:
        """The download that began last is complete and checked."""

    def step(self, part: str, what: str) -> None:
        """`part` has come to `what`, for instance "ready after 2.1 s"."""


class Silent:
    """A progress that nobody watches."""

    def start_download(self, what: str, size: int) -> None:
        """Ignore it."""

    def advance(self, count: int) -> None:
        """Ignore it."""

    def finish_download(self) -> None:
        """Ignore it."""

    def step(self, part: str, what: str) -> None:
        """Ignore it."""


SILENT: Final[Progress] = Silent()
