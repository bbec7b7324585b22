"""Reading one's own writes: a token taken after a commit, and waiting until a follower shows it.

The idea is that of *Designing Data-Intensive Applications*, chapter 5 (second edition: 6), "Reading Your Own Writes":
the client remembers the position of its last write, and a replica that is behind that position is waited for.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from cdc.config.settings import VIEWS, PipelineSettings
from cdc.connect.source import connection as source
from cdc.connect.source.heartbeat import write_heartbeat
from cdc.core.errors import ConfigurationError, PreconditionError, UnreachableError
from cdc.core.position import Lsn, Position, format_lsn, parse_lsn
from cdc.core.waiting import wait_until
from cdc.run.pipeline import delta_follower, fed_followers, view_store

POLL_SECONDS: Final = 0.05
"""Pause between two looks at the follower: each reads a small file, asks the index for one document, or reads a topic
of positions on, by clients that stay."""


def take_token(connection: Connection) -> str:
    """The token of everything that is committed now: an LSN of the source, as Postgres writes it.

    Call it after the commit. Raises PreconditionError inside a transaction: what is not committed has no position.
    """
    if connection.info.transaction_status != TransactionStatus.IDLE:
        raise PreconditionError("a token cannot be taken inside a transaction", "commit first")
    row = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
    if not connection.autocommit:
        # the SELECT has begun a transaction of its own
        connection.rollback()
    assert row is not None
    return str(row[0])


def wait_for_token(settings: PipelineSettings, follower: str, token: str, seconds: float) -> str:
    """Wait until a follower shows everything up to a token; returns the LSN that it shows.

    Shown is what a reader sees: in an index, after its refresh. A follower may show more than the token, and for a
    moment a commit that the source itself does not show yet, since the log has it when it is written.

    Raises ConfigurationError for an unknown follower or a text that is no token, UnreachableError when it takes longer.
    """
    wanted, read = _parse_token(token), _position_reader(settings, follower)
    if not _has_reached(read(), wanted):
        _write_beat(settings)
    if not wait_until(lambda: _has_reached(read(), wanted), seconds, POLL_SECONDS):
        at = read()
        stands = f"is at {format_lsn(at.lsn)}" if at else "has no position yet"
        raise UnreachableError(
            f"{follower} {stands}, and has not shown {token} within {seconds:g} s",
            "see `cdc status`; is `cdc follow` running?",
        )
    reached = read()
    assert reached is not None
    return format_lsn(reached.lsn)


def _has_reached(position: Position | None, wanted: Lsn) -> bool:
    return position is not None and position.lsn >= wanted


def _write_beat(settings: PipelineSettings) -> None:
    """Write a heartbeat behind the token: positions are those of commits, and there may be none behind the last one."""
    with suppress(UnreachableError, psycopg.errors.LockNotAvailable), source.open_connection(settings.source) as held:
        # somebody who holds the row writes a heartbeat that commits behind the token, too
        held.execute("SET lock_timeout = '1ms'")
        write_heartbeat(held, settings.source, settings.pipeline.name, "token")


def _parse_token(token: str) -> Lsn:
    try:
        return Lsn(parse_lsn(token))
    except ValueError:
        raise ConfigurationError(
            f"{token!r} is no token", "take one by cdc.token(connection) after the commit"
        ) from None


def _position_reader(settings: PipelineSettings, follower: str) -> Callable[[], Position | None]:
    if follower == settings.delta[0]:
        return delta_follower(settings).position
    if follower == VIEWS and settings.views:
        return view_store(settings).position
    fed = fed_followers(None, settings)
    if follower not in fed:
        known = [settings.delta[0], *([VIEWS] if settings.views else []), *fed]
        raise ConfigurationError(f"there is no follower {follower}", f"cdc.yaml has {', '.join(known)}")
    return fed[follower].position
