"""The errors that users see. Each is one line: what happened, to which object → what to do.

CdcError (3)
├── ConfigurationError (2)
├── PreconditionError (3)
│   ├── PausedError
│   ├── TableStoppedError
│   │   └── CopyLostError
│   └── ViewStoppedError
├── UnreachableError (4)
├── DivergenceError (5)
├── SeveralErrors (3)
│   └── IncompleteError (6)
├── HistoryLostError (7)
│   ├── TopicLostError
│   └── TableLostError
├── TableRewrittenError (3)
└── RefusedError (8)

The numbers are exit codes of the command line. Each kind has a code of its own (`code_of`); `cdc errors` lists them.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar

RECAPTURE: Final = "`cdc recapture` starts the capture anew, and copies all tables again"
"""The remedy for changes that were lost between the source and the log."""


_Error = TypeVar("_Error", bound=Exception)


def _restore(kind: type[_Error], args: tuple[object, ...]) -> _Error:
    return kind.__new__(kind, *args)


class PicklableError(Exception):
    """An error that reaches another process as it was, whatever its constructor takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # by default the constructor is called with the text, which is not what ours take
        return _restore, (type(self), self.args), self.__dict__


class CdcError(PicklableError):
    """A failure (`what` happened, to which object) with a remedy.

    The command line prints it as one line and exits with `exit_code`.
    """

    exit_code: ClassVar[int] = 3
    offer: str = ""
    """Text for the user to copy, printed below the error; it may have several lines."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    @classmethod
    def from_text(cls, what: str, remedy: str) -> Self:
        """Make the error again of which no more than its text is left; what else it held has its default."""
        error = _restore(cls, (what,))
        error.what, error.remedy = what, remedy
        return error

    @property
    def code(self) -> str:
        """The name of its kind."""
        return code_of(type(self))

    def __str__(self) -> str:
        return f"{self.what} → {self.remedy}" if self.remedy else self.what

    @property
    def lines(self) -> tuple[str, ...]:
        """The error as lines: one for each problem."""
        return (str(self),)


def code_of(kind: type[CdcError]) -> str:
    """The stable name of a kind of errors, `history-lost`; one of another room has that of the kind that it is of."""
    ours = next(each for each in kind.__mro__ if each.__module__ == __name__)
    words = re.findall("[A-Z][a-z]+", ours.__name__)
    return "-".join(word.lower() for word in words if not word.startswith("Error"))


class ConfigurationError(CdcError):
    """The configuration is not valid."""

    exit_code = 2


class PreconditionError(CdcError):
    """A server or a table exists, but is not in the state that the pipeline needs."""


class PausedError(PreconditionError):
    """Somebody has paused the capture or a follower; it goes on when it is resumed."""


class TableStoppedError(PreconditionError):
    """A follower cannot apply further changes to one table; it still follows its other tables."""

    is_lost: ClassVar[bool] = False

    def as_json(self) -> dict[str, Any]:
        return {"what": self.what, "remedy": self.remedy, "is_lost": self.is_lost}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "TableStoppedError":
        kind = CopyLostError if value["is_lost"] else TableStoppedError
        return kind(value["what"], value["remedy"])


class CopyLostError(TableStoppedError):
    """A follower has lost its data of one table; another copy repairs it."""

    is_lost = True


class UnreachableError(CdcError):
    """A server does not answer; a later attempt may succeed."""

    exit_code = 4


def to_system_error(error: OSError) -> CdcError:
    """What the operating system refuses, in its own words: a full or broken disk, a folder that may not be read."""
    said = error.strerror or str(error) or type(error).__name__
    what = ": ".join(str(each) for each in (error.filename, said) if each)
    return CdcError(" ".join(what.split()), "mend that, and run the same again; --debug shows where it happened")


class DivergenceError(CdcError):
    """A follower does not hold what its source holds."""

    exit_code = 5


class SeveralErrors(CdcError):
    """More than one failure: `errors` has each of them, and each is a line of its own."""

    errors: tuple[CdcError, ...] = ()

    def __init__(self, errors: Iterable[CdcError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, self.errors)))

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(str, self.errors)) or super().lines


class IncompleteError(SeveralErrors):
    """The command is done, except for stopped tables and blocked keys; there is one error for each of them."""

    exit_code = 6


class HistoryLostError(CdcError):
    """The log or the slot has lost changes that a follower needs; only a new copy helps."""

    exit_code = 7


class TopicLostError(HistoryLostError):
    """The topic `topic` is gone, or has lost messages that a follower needs."""

    topic: str = ""

    def __init__(self, topic: str, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        # the lake's stream finds the topic's table by it, and goes on with the others
        self.topic = topic


class TableLostError(HistoryLostError):
    """A follower's files of one table are damaged, gone, or changed by another writer.

    A new copy of that table helps; the other tables are followed on.
    """

    _why: str = ""

    def __init__(self, table: object, why: str) -> None:
        super().__init__(
            f"{table}: {why}", f"stop `cdc follow`; `cdc bootstrap --again {table}` copies it as it is now"
        )
        self._why = why

    @property
    def why(self) -> str:
        """What happened, without the table; with it where only the text is left."""
        return self._why or self.what


class ViewStoppedError(PreconditionError):
    """A view cannot be kept up; the others are."""

    def __init__(self, view: object, why: str) -> None:
        super().__init__(f"view {view}: {why}", "correct its sql or its key in cdc.yaml, or the rows")
        self.why = why


class TableRewrittenError(CdcError):
    """A table was rewritten or altered while it was copied, or an ALTER is waiting; restart the copy."""


class RefusedError(CdcError):
    """The command was refused; nothing has changed."""

    exit_code = 8
