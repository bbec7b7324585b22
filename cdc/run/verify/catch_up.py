"""Waits until a follower has everything committed up to an LSN, and checks that somebody follows it."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from cdc.core.errors import PreconditionError
from cdc.core.position import Lsn, Position, format_lsn
from cdc.core.table import TableName
from cdc.core.table_state import Joining
from cdc.core.text.plural import format_count
from cdc.core.waiting import Deadline
from cdc.log.changes_behind import ChangesBehind
from cdc.log.names import transaction_topic
from cdc.run.pipeline import Pipeline
from cdc.run.tables.selection import list_followed
from cdc.sinks.lake.metadata.stopped_tables import StoppedTable

POLL_SECONDS = 0.5
PATIENCE_SECONDS = 120.0
"""How long to wait for a follower that somebody keeps in sync."""

ReadPosition = Callable[[], Position | None]
"""Reads a follower's position."""

Check = Callable[[], None]
"""Called between two looks; raises CdcError when further waiting is in vain."""


def check_followed(pipeline: Pipeline, followers: Mapping[str, ReadPosition], lsn: Lsn) -> None:
    """Raise PreconditionError for a follower that lacks changes up to `lsn` while nobody follows it on this machine."""
    for name, read_position in followers.items():
        with _open_log(pipeline, lsn) as behind:
            _check_followed(pipeline, name, read_position, behind)


def wait_for_lsn(
    pipeline: Pipeline, name: str, read_position: ReadPosition, lsn: Lsn, patience: float | None, check: Check
) -> Position:
    """Wait until the follower has everything committed up to `lsn`; returns its position then.

    Raises PreconditionError after `patience` seconds. Without `patience`, after PATIENCE_SECONDS, and at once when the
    follower is behind and nobody follows it. Errors of `check` pass through.
    """
    longest = PATIENCE_SECONDS if patience is None else patience
    deadline = Deadline(longest)
    with _open_log(pipeline, lsn) as behind:
        while True:
            position = read_position()
            if position is not None and _has_reached(position, behind):
                return position
            if patience is None:
                _check_followed(pipeline, name, read_position, behind)
            if deadline.is_past:
                at = format_lsn(position.lsn) if position else "no position"
                raise PreconditionError(
                    f"follower {name} is at {at} and has not reached {format_lsn(lsn)} in {longest:.0f} s",
                    "is `cdc follow` running?",
                )
            check()
            time.sleep(POLL_SECONDS)


def wait_for_tables(
    pipeline: Pipeline,
    followers: Mapping[str, ReadPosition],
    patience: float | None,
    asked: Collection[TableName],
) -> list[StoppedTable]:
    """Wait until each follower has the newest copy of its tables, of those that are `asked` for.

    A new copy joins only once it has caught up. Returns the stopped tables, which are not waited for. Raises
    PreconditionError as `wait_for_lsn` does.
    """
    longest = PATIENCE_SECONDS if patience is None else patience
    # one for all looks: the tables that have joined stay open
    deadline, lake, missing = Deadline(longest), pipeline.lake_follower, dict[str, list[TableName]]()
    while True:
        # positions first: a later cut has more tables, never fewer
        positions = {name: read_position() for name, read_position in followers.items()}
        lake.cuts.invalidate()
        lake.tables.look_again([table for tables in missing.values() for table in tables])
        missing = {
            name: [table for table in _find_missing_tables(pipeline, name, at) if table in asked]
            for name, at in positions.items()
        }
        name, tables = next(((name, tables) for name, tables in missing.items() if tables), ("", []))
        if not tables:
            return lake.tables.stops()
        if deadline.is_past or (patience is None and not pipeline.leases.is_held(name)):
            raise PreconditionError(
                f"follower {name} does not have {', '.join(map(str, tables))} as copied last",
                "run `cdc follow` until it has",
            )
        time.sleep(POLL_SECONDS)


def _find_missing_tables(pipeline: Pipeline, name: str, position: Position | None) -> Sequence[TableName]:
    if position is None:
        return []
    # by a follower's own cut: it holds the tables of that one, not of the lake's last
    absent = pipeline.lake_follower.tables.select(Joining, at=None if name == pipeline.lake_name else position)
    return sorted(absentee for absentee, s in absent.items() if pipeline.settings.holds_table(name, s.table))


@contextmanager
def _open_log(pipeline: Pipeline, lsn: Lsn) -> Iterator[ChangesBehind]:
    """The changes of the followed tables up to an LSN, as the log has them; read on from look to look."""
    tables = frozenset(map(str, list_followed(pipeline)))
    with pipeline.open_log() as reader:
        yield ChangesBehind(reader, transaction_topic(pipeline.settings.log.prefix), tables, lsn)


def _has_reached(position: Position, behind: ChangesBehind) -> bool:
    if position.lsn > behind.lsn:
        return True
    lacking = behind.count(position)
    return lacking.is_whole and not lacking.changes


def _check_followed(pipeline: Pipeline, name: str, read_position: ReadPosition, behind: ChangesBehind) -> None:
    pause = pipeline.find_pause(name)
    # lease first: a `cdc follow` may catch up and end in between, and then the position is new enough
    if pipeline.leases.is_held(name) and pause is None:
        return
    position = read_position()
    changes = behind.count(position).changes if position else None
    if changes != 0:
        if pause:
            raise pause
        what = "holds nothing yet" if changes is None else f"is {format_count(changes, 'change')} behind"
        raise PreconditionError(
            f"follower {name} {what}, and no `cdc follow` runs on this machine",
            "run `cdc follow`, or say how long to wait for another machine's with --wait",
        )
