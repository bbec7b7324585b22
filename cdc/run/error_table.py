"""The table of errors: each kind's code, exit code, what it means and what helps in general."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass
from typing import Any, Final

from cdc.core.errors import (
    CdcError,
    ConfigurationError,
    CopyLostError,
    DivergenceError,
    HistoryLostError,
    IncompleteError,
    PausedError,
    PreconditionError,
    RefusedError,
    SeveralErrors,
    TableLostError,
    TableRewrittenError,
    TableStoppedError,
    TopicLostError,
    UnreachableError,
    ViewStoppedError,
    code_of,
)

HEAD: Final = ("code", "exit code", "what happened", "what helps")
HELPS: Final[Mapping[type[CdcError], str]] = {
    CdcError: "The line's own remedy; it has no other kind.",
    ConfigurationError: "`cdc config check` lists all errors of the file, with lines; `cdc VERB --help` the options.",
    PreconditionError: "The line names the statement or setting. Nothing was lost: run the same again afterwards.",
    PausedError: "`cdc resume NAME`.",
    TableStoppedError: "Mend the cause; the follower tries the table again by itself. Its other tables go on.",
    CopyLostError: "Nothing: `cdc follow` copies the table again from the lake.",
    ViewStoppedError: "Correct the view's SQL or key, or the rows; `cdc follow` tries it again by itself.",
    UnreachableError: "Wait, or start the server: `cdc follow` tries again by itself. `cdc logs` has Connect's words.",
    DivergenceError: "`cdc bootstrap --again TABLE` copies the table as it is; keep the verdict, since it is a bug.",
    SeveralErrors: "Each line has its own remedy; `cdc status` shows what is left of them.",
    IncompleteError: "Each line names what is left, and its remedy; then run the same again.",
    HistoryLostError: "`cdc recapture` starts the capture anew, and copies all tables.",
    TopicLostError: "Of one table: `cdc follow` copies it again. Of the order of commits: `cdc recapture`.",
    TableLostError: "Stop `cdc follow`; `cdc bootstrap --again TABLE` copies it as it is now.",
    TableRewrittenError: "Nothing: the copy starts over. If somebody alters the table again and again, wait for that.",
    RefusedError: "Nothing was changed. Another process works on the same, or a question was not answered with yes.",
}
"""What helps against each kind, beside the remedy that every line has."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """A kind of error."""

    code: str
    exit_code: int
    meaning: str
    helps: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def describe_errors() -> list[ErrorRow]:
    """The kinds in the order of the tree of `cdc.core.errors`."""
    return [ErrorRow(code_of(kind), kind.exit_code, _read_meaning(kind), HELPS[kind]) for kind in _walk(CdcError)]


def _walk(kind: type[CdcError]) -> Iterator[type[CdcError]]:
    yield kind
    for below in kind.__subclasses__():
        # kinds of other rooms have the code of the one that they are of
        if below.__module__ == kind.__module__:
            yield from _walk(below)


def _read_meaning(kind: type[CdcError]) -> str:
    first = (inspect.getdoc(kind) or "").split("\n\n")[0]
    return " ".join(first.split())


def to_markdown() -> str:
    """Write the rows as a table of Markdown."""
    rows = [HEAD, ("---",) * len(HEAD), *(tuple(map(str, astuple(row))) for row in describe_errors())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
