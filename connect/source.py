"""Connections to the source, and what it is: every failure to connect as one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.history import History, left_at
from cdc.core.position import Lsn, parse_lsn
from connect import replication
from connect.settings import SourceSettings

TEXT_OPTIONS = " ".join(
    f"-c {setting}"
    for setting in (
        "DateStyle=ISO",
        "IntervalStyle=postgres",
        "TimeZone=UTC",
        "extra_float_digits=3",
        "bytea_output=hex",
        "lc_monetary=C",
    )
)
"""With these, a value is one text, whatever the server's or the role's own settings."""

SESSION_OPTIONS = " ".join(
    (
        TEXT_OPTIONS,
        # raise instead of leaving rows out
        "-c row_security=off",
        # a COPY takes as long as its table is large; the keeper of a snapshot idles in its transaction meanwhile
        "-c statement_timeout=0",
        "-c idle_in_transaction_session_timeout=0",
    )
)


def conninfo(source: SourceSettings, **extra: Any) -> str:
    """The source's address as libpq reads it, password included: never to be printed."""
    return make_conninfo(
        "",
        host=source.host,
        port=source.port,
        dbname=source.dbname,
        user=source.user,
        password=source.password.get_secret_value(),
        sslmode=source.sslmode,
        sslrootcert=source.sslrootcert,
        connect_timeout=source.connect_timeout_seconds,
        application_name="cdc",
        options=SESSION_OPTIONS,
        # sessions that only hold something say nothing for hours, and firewalls forget who is silent
        keepalives_idle=30,
        keepalives_interval=10,
        **extra,
    )


def address(source: SourceSettings) -> str:
    """The source as messages name it."""
    return f"Postgres {source.host}:{source.port}/{source.dbname}"


@contextmanager
def connected(source: SourceSettings, *, autocommit: bool = True) -> Iterator[Connection]:
    """A session on the source, closed at the end.

    Raises UnreachableError or PreconditionError when it cannot be opened, and when the server goes away meanwhile.
    """
    connection = connect(source, autocommit=autocommit)
    try:
        with connection:
            _stay_idle(connection)
            yield connection
    except psycopg.OperationalError as error:
        if connection.closed or connection.broken:
            raise went_away(source, error) from error
        raise


def went_away(source: SourceSettings, error: psycopg.OperationalError) -> UnreachableError:
    """What is raised for a session that the server, or the way to it, has ended."""
    return UnreachableError(f"{address(source)} went away: {_first_line(error)}", "try again")


def _stay_idle(connection: Connection) -> None:
    """Let a session wait between two commands for as long as a copy takes."""
    # no option of the session: before Postgres 14 there is no such setting. A transaction has a time-out of its own
    if connection.autocommit and connection.info.server_version >= 140000:
        connection.execute("SET idle_session_timeout = 0")


def connect(source: SourceSettings, *, autocommit: bool = True, **extra: Any) -> Connection:
    """Open a session; the caller closes it. Raises like `connected`."""
    try:
        return psycopg.connect(conninfo(source, **extra), autocommit=autocommit)
    except psycopg.OperationalError as error:
        raise _refused(source, error) from None


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


def _refused(source: SourceSettings, error: psycopg.OperationalError) -> CdcError:
    reason, where = _first_line(error), address(source)
    if "password authentication failed" in reason or "no password supplied" in reason:
        return PreconditionError(f"{where} refuses the password of {source.user!r}", "correct source.password")
    if "does not exist" in reason or "no pg_hba.conf entry" in reason or "permission denied" in reason:
        return PreconditionError(f"{where}: {reason}", "correct the source block, or create what is missing")
    return UnreachableError(f"{where} does not answer: {reason}", "check source.host and source.port; is it running?")


def current_lsn(connection: Connection) -> Lsn:
    """The end of the write-ahead log as written so far: commits that wait for no flush may lie behind it."""
    row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    assert row is not None
    return parse_lsn(row[0])


def clock(connection: Connection) -> float:
    """What time it is at the source, in seconds since 1970: commits are stamped by the same clock."""
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None
    return float(row[0])


def history(source: SourceSettings) -> History:
    """Which past the source's LSNs belong to; needs the right to replicate. Raises like `connected`."""
    connection = connect(source, replication="database")
    try:
        system = replication.command(connection.pgconn, b"IDENTIFY_SYSTEM")
        timeline = int(replication.text(system, 1))
        left: dict[int, Lsn] = {}
        # the first timeline has no history file
        if timeline > 1:
            file = replication.command(connection.pgconn, f"TIMELINE_HISTORY {timeline}".encode())
            left = left_at(replication.text(file, 1))
        return History(int(replication.text(system, 0)), timeline, parse_lsn(replication.text(system, 2)), left)
    finally:
        connection.close()
