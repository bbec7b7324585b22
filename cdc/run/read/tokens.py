"""Reading one's own writes: a token taken after a commit, and waiting until a follower shows it.

The idea is that of *Designing Data-Intensive Applications*, chapter 5 (second edition: 6), "Reading Your Own Writes":
the client remembers the position of its last write, and a replica that is behind that position is waited for.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

from psycopg import Connection
from psycopg.pq import TransactionStatus

from cdc.columns.feed import FedFollower
from cdc.config.settings import VIEWS
from cdc.core.errors import ConfigurationError, PreconditionError, UnreachableError
from cdc.core.position import Lsn, Position, format_lsn, parse_lsn
from cdc.core.table import TableName
from cdc.core.waiting import Deadline, wait_until
from cdc.postgres.values import read_value
from cdc.run.pipeline import Pipeline
from cdc.run.read.beats import beats_of
from cdc.run.read.shown_tables import ShownTables

POLL_SECONDS: Final = 0.05
"""Pause between two looks at the follower: each reads a small file, asks the index for one document, or reads a topic
of positions on, by clients that stay."""
LONGEST_POLL_SECONDS: Final = 0.4
"""The same while a table is filled or copied again."""
MOST_SHOWN: Final = 3
"""Names of tables in one line."""
ReadPosition = Callable[[], Position | None]


def take_token(connection: Connection) -> str:
    """The token of everything that is committed now: an LSN of the source, as Postgres writes it.

    Call it after the commit. Raises PreconditionError inside a transaction: what is not committed has no position.
    """
    if connection.info.transaction_status != TransactionStatus.IDLE:
        raise PreconditionError("a token cannot be taken inside a transaction", "commit first")
    lsn = read_value(connection, "SELECT pg_current_wal_insert_lsn()")
    if not connection.autocommit:
        # the SELECT has begun a transaction of its own
        connection.rollback()
    return str(lsn)


def wait_for_token(
    pipeline: Pipeline, follower: str, token: str, seconds: float, tables: Sequence[TableName] = ()
) -> str:
    """Wait until a follower shows everything up to a token; returns the LSN that it shows.

    Shown is what a reader sees: in an index, after its refresh. A follower may show more than the token, and for a
    moment a commit that the source itself does not show yet, since the log has it when it is written. `tables`: those
    that the reader reads, views among them; all that the follower holds without any.

    Raises ConfigurationError for an unknown follower, a table that it does not hold, or a text that is no token,
    PreconditionError when one of the tables has stopped, UnreachableError when it takes longer.
    """
    wanted, beats = _parse_token(token), beats_of(pipeline)
    deadline = Deadline(seconds)
    with _open_follower(pipeline, follower) as (read, fed):
        has_beat = False

        def is_reached() -> bool:
            nonlocal has_beat
            if _has_reached(read(), wanted):
                return True
            has_beat = has_beat or beats.offer(wanted)
            return False

        if not wait_until(is_reached, seconds, POLL_SECONDS):
            at = read()
            stands = f"is at {format_lsn(at.lsn)}" if at else "has no position yet"
            what, pause = (
                f"{follower} {stands}, and has not shown {token} within {seconds:g} s",
                pipeline.find_pause(follower),
            )
            raise UnreachableError(f"{what}: {pause.what}", pause.remedy) if pause else _too_late(what)
        return _wait_for_tables(ShownTables(pipeline, follower, fed, tables), follower, read, wanted, deadline)


def _wait_for_tables(shown: ShownTables, follower: str, read: ReadPosition, wanted: Lsn, deadline: Deadline) -> str:
    """Wait until the follower shows its tables, too, as of a position behind the token; returns that one's LSN."""
    is_asked, pause = False, POLL_SECONDS
    while True:
        reached = read()
        hidden = shown.find_hidden(reached, wanted) if reached else []
        if reached and not hidden:
            return format_lsn(reached.lsn)
        if not is_asked or deadline.is_past:
            shown.check_stops(hidden)
            is_asked = True
        if deadline.is_past:
            names = ", ".join(map(str, hidden[:MOST_SHOWN]))
            raise _too_late(f"{follower} has {format_lsn(wanted)}, but for {names}, which are filled or copied again")
        time.sleep(pause)
        # a copy or a fill takes seconds
        pause = min(2 * pause, LONGEST_POLL_SECONDS)


def _too_late(what: str) -> UnreachableError:
    return UnreachableError(what, "see `cdc status`; is `cdc follow` running?")


def _has_reached(position: Position | None, wanted: Lsn) -> bool:
    return position is not None and position.lsn >= wanted


def _parse_token(token: str) -> Lsn:
    try:
        return parse_lsn(token)
    except ValueError:
        raise ConfigurationError(
            f"{token!r} is no token", "take one by cdc.token(connection) after the commit"
        ) from None


@contextmanager
def _open_follower(pipeline: Pipeline, follower: str) -> Iterator[tuple[ReadPosition, FedFollower | None]]:
    """Open the follower for questions after its position; also yields itself, if the lake feeds it."""
    if follower == pipeline.lake_name:
        yield pipeline.lake_follower.position, None
    elif follower == VIEWS and pipeline.settings.views:
        yield pipeline.views.position, None
    else:
        fed = pipeline.fed
        if follower not in fed:
            known = [pipeline.lake_name, *([VIEWS] if pipeline.settings.views else []), *fed]
            raise ConfigurationError(f"there is no follower {follower}", f"cdc.yaml has {', '.join(known)}")
        with closing(fed[follower]) as asked:
            yield asked.position, asked
