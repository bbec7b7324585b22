"""Connections to the source, and what it is: every failure to connect as one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.history import History, parse_timeline_history
from cdc.core.position import Lsn, parse_lsn
from connect.settings import SourceSettings
from connect.source import replication
from connect.source.sessions import later_settings, startup_options


def conninfo(source: SourceSettings, version: int = 0, **extra: Any) -> str:
    """The source's address as libpq reads it, password included: never to be printed.

    `version`: the server's, where it is known; a session is then told everything at its start.
    """
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
        client_encoding="UTF8",
        # raise instead of leaving rows out
        options=startup_options(version, row_security="off"),
        # sessions that only hold something say nothing for hours, and firewalls forget who is silent
        keepalives_idle=30,
        keepalives_interval=10,
        **extra,
    )


def address(source: SourceSettings) -> str:
    """The source as messages name it."""
    return f"Postgres {source.host}:{source.port}/{source.dbname}"


@contextmanager
def open_connection(source: SourceSettings, *, autocommit: bool = True) -> Iterator[Connection]:
    """A session on the source, closed at the end.

    Raises UnreachableError or PreconditionError when it cannot be opened, and when the server goes away meanwhile.
    """
    connection = connect(source, autocommit=autocommit)
    try:
        with connection:
            yield connection
    except psycopg.errors.UntranslatableCharacter as error:
        # a name in the configuration, say, that no table of this database can have
        raise PreconditionError(
            f"{address(source)}: {_first_line(error)}", "correct the name in source.tables or source.keys"
        ) from error
    except psycopg.OperationalError as error:
        if connection.closed or connection.broken:
            raise lost_connection_error(source, error) from error
        raise


def lost_connection_error(source: SourceSettings, error: psycopg.OperationalError) -> UnreachableError:
    """What is raised for a session that the server, or the way to it, has ended."""
    return UnreachableError(f"{address(source)} went away: {_first_line(error)}", "try again")


def connect(source: SourceSettings, *, autocommit: bool = True, **extra: Any) -> Connection:
    """Open a session; the caller closes it. Raises like `connected`."""
    try:
        connection = psycopg.connect(conninfo(source, **extra), autocommit=True)
    except psycopg.OperationalError as error:
        raise _to_cdc_error(source, error) from None
    try:
        _begin(connection, source)
        connection.autocommit = autocommit
    except BaseException:
        connection.close()
        raise
    return connection


def _begin(connection: Connection, source: SourceSettings) -> None:
    """Check that this is a server that can be written to, and set what could not be set at the session's start.

    By the simple protocol: a replication connection has no other.
    """
    wanted = [sql.SQL("pg_is_in_recovery()"), *later_settings(connection.info.server_version)]
    statement = sql.SQL("SELECT {}").format(sql.SQL(", ").join(wanted))
    try:
        found = replication.run_command(connection.pgconn, statement.as_string(connection).encode())
    except UnreachableError as error:
        raise UnreachableError(f"{address(source)} went away: {error.what}", "try again") from None
    if replication.text(found, 0) == "t":
        raise PreconditionError(
            f"{address(source)} is a standby: publications, heartbeats and the toolkit's tables are written on the"
            " primary only",
            "name the primary in source.host and source.port",
        )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


def _to_cdc_error(source: SourceSettings, error: psycopg.OperationalError) -> CdcError:
    reason, where = _first_line(error), address(source)
    if "conversion between" in reason:
        return PreconditionError(
            f"{where}: its encoding has no conversion to UTF8", "use a database with ENCODING 'UTF8'"
        )
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


def read_clock(connection: Connection) -> float:
    """What time it is at the source, in seconds since 1970: commits are stamped by the same clock."""
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None
    return float(row[0])


def read_history(source: SourceSettings) -> History:
    """Which past the source's LSNs belong to; needs the right to replicate. Raises like `connected`."""
    connection = connect(source, replication="database")
    try:
        system = replication.run_command(connection.pgconn, b"IDENTIFY_SYSTEM")
        timeline = int(replication.text(system, 1))
        left: dict[int, Lsn] = {}
        # the first timeline has no history file
        if timeline > 1:
            file = replication.run_command(connection.pgconn, f"TIMELINE_HISTORY {timeline}".encode())
            left = parse_timeline_history(replication.text(file, 1))
        return History(int(replication.text(system, 0)), timeline, parse_lsn(replication.text(system, 2)), left)
    finally:
        connection.close()
