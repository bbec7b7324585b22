"""Commands of the replication protocol, for which psycopg has no calls (Postgres manual, "Streaming Replication")."""

from typing import Final

from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.postgres.errors import to_cdc_error

_DUPLICATE_OBJECT: Final = "42710"
_OPERATOR_INTERVENTION: Final = "57P"
"""Beginning of the SQLSTATEs of a server, or of one session, that somebody ends."""


def run_command(pgconn: PGconn, statement: bytes) -> PGresult:
    """Send one command and return its rows; raises CdcError with the server's message."""
    return check_result(pgconn, pgconn.exec_(statement))


def check_result(pgconn: PGconn, result: PGresult | None) -> PGresult:
    """Return the result if it has rows; else raise CdcError with the server's message."""
    if result is None or result.status != ExecStatus.TUPLES_OK:
        raise _to_cdc_error(pgconn, result)
    return result


def text(result: PGresult, column: int) -> str:
    """A value of the first row."""
    value = result.get_value(0, column)
    assert value is not None
    return value.decode()


def _to_cdc_error(pgconn: PGconn, result: PGresult | None) -> CdcError:
    state, said = (_field(result, field) for field in (DiagnosticField.SQLSTATE, DiagnosticField.MESSAGE_PRIMARY))
    # without a field where libpq itself has noticed that the connection is gone
    lines = (said or pgconn.error_message.decode(errors="replace")).strip().splitlines()
    reason = lines[0] if lines else "no answer"
    if state == _DUPLICATE_OBJECT:
        return PreconditionError(reason, "drop it if nothing reads from it, or set another source.slot")
    # after the server's last message the connection may still look alive for a moment
    if pgconn.status == ConnStatus.BAD or state.startswith(_OPERATOR_INTERVENTION):
        return UnreachableError(f"the source went away: {reason}", "try again")
    return to_cdc_error("the source refuses a replication command", state, reason)


def _field(result: PGresult | None, field: DiagnosticField) -> str:
    found = result.error_field(field) if result else None
    return found.decode(errors="replace") if found else ""
