"""What an error of Postgres means for us and what helps, by its SQLSTATE (manual, "Error Codes").

The server's texts are in the language that it is set to (`lc_messages`), so none of them is read.
"""

from typing import Final, NamedTuple

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.text.error_text import pick_first_line


class _Meaning(NamedTuple):
    """The error that SQLSTATEs with one of these beginnings are, and what helps."""

    states: tuple[str, ...]
    kind: type[CdcError]
    remedy: str


UNAUTHENTICATED: Final = "28P01"
UNDEFINED_OBJECT: Final = "42704"
OBJECT_IN_USE: Final = "55006"
_AGAIN: Final = "try again"

_MEANINGS: Final = (
    # untranslatable_character, character_not_in_repertoire: a name that the database's encoding cannot express
    _Meaning(("22P05", "22021"), PreconditionError, "correct the name in source.tables or source.keys"),
    _Meaning(("25006",), PreconditionError, "name the primary in source.host and source.port"),
    _Meaning((UNAUTHENTICATED,), PreconditionError, "correct source.password"),
    _Meaning(("28",), PreconditionError, "correct source.user, or let it in (pg_hba.conf)"),
    _Meaning(("3D000", "57P04"), PreconditionError, "correct source.dbname, or create the database"),
    _Meaning(("42501",), PreconditionError, "GRANT the right to the role in source.user, or name another there"),
    # names of the catalog that are gone, or there already, since this command has looked
    _Meaning(
        ("42P01", "42703", UNDEFINED_OBJECT, "42883", "3F000"),
        PreconditionError,
        "start it again: it looks anew at what is there; `cdc bootstrap` makes what the toolkit needs",
    ),
    _Meaning(("42P07", "42710"), PreconditionError, "start it again; if it stays, drop that, or choose another name"),
    _Meaning(
        ("53300",), UnreachableError, "end sessions that nobody needs, or raise max_connections (max_wal_senders)"
    ),
    _Meaning(("53400",), PreconditionError, "raise the setting that it names, and restart Postgres"),
    _Meaning(("53100",), UnreachableError, "make room on the source's disk"),
    _Meaning(("53",), UnreachableError, "let the source have more memory, or less to do"),
    _Meaning((OBJECT_IN_USE,), PreconditionError, "end the session that uses it"),
    _Meaning(("55P03",), UnreachableError, "end the session that locks it, or try again later"),
    _Meaning(("57P03",), UnreachableError, "it is starting or stopping: try again"),
    # query_canceled: a session of ours has no statement_timeout but where it has set one itself
    _Meaning(("57014",), UnreachableError, "try again when less is to do: somebody cancelled it, or it took too long"),
    # connections that end; deadlocks and their like; statements and sessions that somebody ends
    _Meaning(("08", "40", "57"), UnreachableError, _AGAIN),
    # files that Postgres cannot read, damaged data, and what it calls an internal error
    _Meaning(("58", "XX"), PreconditionError, "the source has lost or damaged files: see its log"),
)


def find_remedy(state: str | None) -> str:
    """What helps against an error that ended a session, by its SQLSTATE, if the server has said one."""
    return next((each.remedy for each in _MEANINGS if state and state.startswith(each.states)), _AGAIN)


def to_cdc_error(what: str, state: str | None, error: object) -> CdcError:
    """Translate an error of a server with this SQLSTATE, or of a driver without one. `what`: begins its text."""
    line = f"{what}: {pick_first_line(error)}"
    if not state:
        return UnreachableError(line, _AGAIN)
    for meaning in _MEANINGS:
        if state.startswith(meaning.states):
            return meaning.kind(line, meaning.remedy)
    return PreconditionError(f"{line} (SQLSTATE {state})", "see the source's log")
