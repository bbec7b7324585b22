"""What a user can cause or meet, each as one line: what happened, to which object, what to do."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

RECAPTURE: Final = "`cdc recapture` starts the capture anew, and copies all tables again"
"""The remedy for whatever was lost between the source and the log."""


class CdcError(Exception):
    """A failure with a remedy; the command line prints it as one line and exits with `exit_code`.

    The codes are the README's: 2 configuration, 3 precondition, 4 unreachable, 5 divergence, 6 incomplete,
    7 history lost, 8 refused.
    """

    exit_code: ClassVar[int] = 3
    offer: str = ""
    """Text to copy, of several lines perhaps, that is shown below what went wrong."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} → {self.remedy}" if self.remedy else self.what

    @property
    def lines(self) -> tuple[str, ...]:
        """What went wrong, one line each where it is more than one thing."""
        return (str(self),)


class ConfigurationError(CdcError):
    """The configuration says something that cannot be followed."""

    exit_code = 2


class PreconditionError(CdcError):
    """A part is there, but not in the state that the pipeline needs."""


class TableStoppedError(PreconditionError):
    """One table cannot be brought further in one follower; the follower's other tables can."""

    is_lost: ClassVar[bool] = False

    def as_json(self) -> dict[str, Any]:
        return {"what": self.what, "remedy": self.remedy, "is_lost": self.is_lost}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "TableStoppedError":
        kind = CopyLostError if value["is_lost"] else TableStoppedError
        return kind(value["what"], value["remedy"])


class CopyLostError(TableStoppedError):
    """What a follower had of one table is gone: another copy is all it takes."""

    is_lost = True


class UnreachableError(CdcError):
    """A part does not answer; trying again later is sensible."""

    exit_code = 4


class DivergenceError(CdcError):
    """A follower does not hold what its source holds."""

    exit_code = 5


class IncompleteError(CdcError):
    """What was asked for is done, but for tables that are stopped or keys that are held; `left` tells of each."""

    exit_code = 6

    def __init__(self, left: Iterable[CdcError]) -> None:
        self.left = tuple(left)
        super().__init__("; ".join(map(str, self.left)))

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(str, self.left))


class HistoryLostError(CdcError):
    """The log or the slot no longer holds what a follower needs; only a new copy helps."""

    exit_code = 7


class TopicLostError(HistoryLostError):
    """A topic is gone, or lacks messages that were to be read from it; `topic` names it."""

    def __init__(self, topic: str, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.topic = topic


class TableLostError(HistoryLostError):
    """One table of a follower can be followed no further as it is: what it is made of is damaged, gone, or was changed
    by others. A new copy of it helps; the others go on."""

    def __init__(self, table: object, why: str) -> None:
        super().__init__(
            f"{table}: {why}", f"stop `cdc follow`; `cdc bootstrap --again {table}` copies it as it is now"
        )
        self.why = why


class TableRewritten(CdcError):
    """A table got another file, or other columns, under its copy, or somebody waits to give it some: the copy has to
    start over."""


class RefusedError(CdcError):
    """The request is understood and not carried out."""

    exit_code = 8
