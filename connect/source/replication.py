"""Commands of the replication protocol, for which psycopg has no calls (Postgres manual, "Streaming Replication")."""

from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from cdc.core.errors import CdcError, PreconditionError, UnreachableError


def run_command(pgconn: PGconn, statement: bytes) -> PGresult:
    """Send one command and return its rows; raises CdcError with the server's message."""
    return check_result(pgconn, pgconn.exec_(statement))


def check_result(pgconn: PGconn, result: PGresult | None) -> PGresult:
    """Return the result if it has rows; else raise CdcError with the server's message."""
    if result is None or result.status != ExecStatus.TUPLES_OK:
        gone = pgconn.status == ConnStatus.BAD
        raise _to_cdc_error(result.error_message if result else pgconn.error_message, gone=gone)
    return result


def text(result: PGresult, column: int) -> str:
    """A value of the first row."""
    value = result.get_value(0, column)
    assert value is not None
    return value.decode()


def _to_cdc_error(message: bytes, *, gone: bool) -> CdcError:
    lines = message.decode(errors="replace").strip().splitlines()
    reason = lines[0].removeprefix("ERROR:").strip() if lines else "no answer"
    if "already exists" in reason:
        return PreconditionError(reason, "drop it if nothing reads from it, or set another source.slot")
    # after the server's last message the connection may still look alive for a moment
    if gone or "terminat" in reason:
        return UnreachableError(f"the source went away: {reason}", "try again")
    return PreconditionError(f"the source refuses a replication command: {reason}", "see the source's log")
