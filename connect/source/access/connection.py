"""Connections to the source: every failure to connect becomes one line."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from cdc.connect.settings import SourceSettings, StandbySettings
from cdc.connect.source.access import replication, tls_refusal
from cdc.connect.source.access.sessions import later_settings, startup_options
from cdc.connect.source.access.sqlstate import find_sqlstate
from cdc.connect.source.access.tls_refusal import find_distrust, is_of_tls
from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.position import Lsn, parse_lsn
from cdc.core.text.error_text import pick_first_line
from cdc.core.timeline import SourceTimeline, parse_timeline_history
from cdc.postgres.errors import UNAUTHENTICATED, find_remedy, to_cdc_error
from cdc.postgres.session import KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS
from cdc.postgres.values import read_value
from cdc.secrets import renew


class RefusedLoginError(PreconditionError):
    """The server takes no such password; a secret that rotates may have another one by now."""


_FEATURE_NOT_SUPPORTED: Final = "0A000"
_NO_FILE: Final = f"{os.devnull}/none"
"""None can be there; of one that is no plain file libpq complains on stderr."""
_KEEPALIVE: Final = {"keepalives_idle": KEEPALIVE_IDLE_SECONDS, "keepalives_interval": KEEPALIVE_INTERVAL_SECONDS}


def try_replication(source: SourceSettings) -> CdcError | None:
    """What keeps a session of the replication protocol from being answered; None if nothing does."""
    try:
        connection = connect(source, replication="database")
    except CdcError as error:
        return error
    try:
        replication.run_command(connection.pgconn, b"IDENTIFY_SYSTEM")
    except CdcError as error:
        return error
    finally:
        connection.close()
    return None


def conninfo(source: SourceSettings, version: int = 0, **extra: Any) -> str:
    """Make the libpq connection string, with the password: never print it.

    `version`: the server's, if known; then the string sets all of a session's settings.
    """
    return make_conninfo(
        "",
        host=source.host,
        port=source.port,
        dbname=source.dbname,
        user=source.user,
        password=source.password.get_secret_value() or None,
        # else libpq would look into a file of its own, which the other clients do not know
        passfile=_NO_FILE,
        sslmode=source.sslmode,
        sslrootcert=source.sslrootcert,
        sslcert=source.sslcert,
        sslkey=source.sslkey,
        channel_binding=source.channel_binding,
        connect_timeout=source.connect_timeout_seconds,
        application_name="cdc",
        client_encoding="UTF8",
        # row_security=off: raise an error instead of leaving rows out
        options=startup_options(version, row_security="off"),
        # a session that only holds a snapshot is silent for hours, and firewalls drop silent connections
        **_KEEPALIVE,
        **({"target_session_attrs": source.target_session_attrs or "primary"} if "," in source.host else {}),
        **extra,
    )


def address(source: SourceSettings) -> str:
    """The source's name in messages."""
    return f"Postgres {source.host}:{source.port}/{source.dbname}"


@contextmanager
def open_connection(source: SourceSettings, *, autocommit: bool = True) -> Iterator[Connection]:
    """Open a session on the source, and close it at the end.

    Raises UnreachableError or PreconditionError when it cannot be opened, and for every error of the server that the
    body does not take itself: no caller sees one of psycopg.
    """
    connection = connect(source, autocommit=autocommit)
    try:
        with connection:
            yield connection
    except psycopg.Error as error:
        raise explain(source, connection, error) from error


def explain(source: SourceSettings, connection: Connection, error: psycopg.Error) -> CdcError:
    """Explain an error of this session on the source."""
    if isinstance(error, psycopg.OperationalError) and (connection.closed or connection.broken):
        longer = "; a standby ends sessions that hold up its replay: see max_standby_streaming_delay there"
        remedy = f"{find_remedy(error.sqlstate)}{longer if isinstance(source, StandbySettings) else ''}"
        return UnreachableError(f"{address(source)} went away: {pick_first_line(error)}", remedy)
    return to_cdc_error(address(source), error.sqlstate, error)


def connect(source: SourceSettings, *, autocommit: bool = True, **extra: Any) -> Connection:
    """Open a session; the caller closes it. A refused password is asked for again. Raises like `open_connection`."""
    password = source.password.get_secret_value()
    try:
        connection = _log_in(source, **extra)
    except RefusedLoginError:
        if not renew(source.password, password):
            raise
        connection = _log_in(source, **extra)
    try:
        _begin(connection, source)
        connection.autocommit = autocommit
    except BaseException:
        connection.close()
        raise
    return connection


def _log_in(source: SourceSettings, **extra: Any) -> Connection:
    asked = conninfo(source, **extra)
    try:
        return psycopg.connect(asked, autocommit=True)
    except psycopg.OperationalError as error:
        # no server has answered yet where TLS has failed, and another client would fail likewise
        state = None if is_of_tls(pick_first_line(error)) else find_sqlstate(asked, error)
        raise _explain_refusal(source, error, state) from None


def _begin(connection: Connection, source: SourceSettings) -> None:
    """Check that the server is no standby, unless one is asked for, and set what could not be set at the start.

    Uses the simple protocol, since a replication connection has no other.
    """
    wanted = [sql.SQL("pg_is_in_recovery()"), *later_settings(connection.info.server_version)]
    statement = sql.SQL("SELECT {}").format(sql.SQL(", ").join(wanted))
    try:
        found = replication.run_command(connection.pgconn, statement.as_string(connection).encode())
    except UnreachableError as error:
        raise UnreachableError(f"{address(source)} went away: {error.what}", "try again") from None
    if replication.text(found, 0) == "t" and not isinstance(source, StandbySettings):
        raise PreconditionError(
            f"{address(source)} is a standby: publications, heartbeats and the toolkit's tables are written on the"
            " primary only",
            "name the primary in source.host and source.port; a standby to decode on in source.standby_host",
        )


def _explain_refusal(source: SourceSettings, error: psycopg.OperationalError, state: str | None) -> CdcError:
    """Explain why no session opens; without a `state` no server has answered."""
    where = address(source)
    if state == UNAUTHENTICATED:
        return RefusedLoginError(f"{where} refuses the password of {source.user!r}", "correct source.password")
    if state == _FEATURE_NOT_SUPPORTED:
        what = f"{where}: its encoding has no conversion to UTF8"
        return PreconditionError(what, "use a database with ENCODING 'UTF8'")
    if state:
        return to_cdc_error(where, state, error)
    if is_of_tls(line := pick_first_line(error)):
        why = find_distrust(source)
        return PreconditionError(f"{where}: no session of TLS: {why or line}", tls_refusal.REMEDY)
    what = f"{where} does not answer: {line}"
    return UnreachableError(what, "check source.host and source.port; is it running?")


def current_lsn(connection: Connection) -> Lsn:
    """Read the end of the write-ahead log; commits with synchronous_commit=off may lie behind it."""
    return parse_lsn(read_value(connection, "SELECT pg_current_wal_lsn()::text"))


def inserted_lsn(connection: Connection) -> Lsn:
    """Read where the next record of the write-ahead log begins, as far as it is inserted: behind every commit."""
    return parse_lsn(read_value(connection, "SELECT pg_current_wal_insert_lsn()::text"))


def read_clock(connection: Connection) -> float:
    """Read the source's clock in seconds since 1970; it also stamps the commits."""
    return float(read_value(connection, "SELECT extract(epoch FROM clock_timestamp())::float8"))


def read_timeline(source: SourceSettings) -> SourceTimeline:
    """Read the source's history; needs the right to replicate. Raises like `open_connection`."""
    connection = connect(source, replication="database")
    try:
        # it answers system identifier, timeline, end of the WAL, database
        system = replication.run_command(connection.pgconn, b"IDENTIFY_SYSTEM")
        timeline = int(replication.text(system, 1))
        timeline_ends: dict[int, Lsn] = {}
        # the first timeline has no history file
        if timeline > 1:
            file = replication.run_command(connection.pgconn, f"TIMELINE_HISTORY {timeline}".encode())
            timeline_ends = parse_timeline_history(replication.text(file, 1))
        end = parse_lsn(replication.text(system, 2))
        return SourceTimeline(int(replication.text(system, 0)), timeline, end, timeline_ends)
    finally:
        connection.close()
