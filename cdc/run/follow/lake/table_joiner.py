"""Joins tables to the lake's stream that were copied while it was running: none of their changes is lost or doubled."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cdc.columns.netting.ends import Ends
from cdc.columns.netting.runs import cut_runs, drop_applied
from cdc.core.fail_points import reach
from cdc.core.position import Bookmark, Lsn, Offsets, Position
from cdc.core.table import Table, TableName
from cdc.core.table_state import Joining
from cdc.log.clients.reader import Reader
from cdc.log.names import change_topic, transaction_topic
from cdc.log.run_reader import ReadRun, RunReader, RunTooLargeError
from cdc.log.settings import LogSettings
from cdc.log.transaction_topic import EndsAbove
from cdc.run.copy.resync_queue import ResyncQueue
from cdc.run.follow.step_size import MOST_RUN_BYTES, StepBounds
from cdc.sinks.lake.apply.apply import AppliedBatch
from cdc.sinks.lake.follower import DeltaFollower


@dataclass(frozen=True, slots=True)
class StreamSteps:
    """The steps of the stream that a joining table needs.

    `await_commit` returns once no commit is under way. `report` hears of each batch that is replayed.
    `apply_schema_changes` applies those of a run and returns where reading goes on. A run of `schema_table` holds one
    transaction only.
    """

    await_commit: Callable[[], None]
    report: Callable[[AppliedBatch], None]
    apply_schema_changes: Callable[[Ends, Offsets], Offsets]
    schema_table: str


class TableJoiner:
    """Brings the copies of one stream's tables to the stream's position, then adds them to its cuts.

    The picture: a table's copy holds every commit up to its bookmark C. The stream stands at position P::

        commit LSN ──────────── C ──────────────── P ──────────────▶
        table's copy  (holds it)│
        join()                  │──1 replay C..P──▶│
        the next cut                               │ 2 names the table
        the stream                                 │──3 reads the table with all others──▶

    A cut that named the table before step 1 would show it without the changes between C and P. A bookmark above P
    needs no replay: the follower skips what the copy already holds. Its topic is read from the ends that its bookmark
    has: what lies below them is never read again.
    """

    def __init__(
        self, follower: DeltaFollower, reader: RunReader, log: LogSettings, bounds: StepBounds, resyncs: ResyncQueue
    ) -> None:
        self._follower = follower
        self._tables = follower.tables
        self._reader = reader
        self._log = log
        self._bounds = bounds
        self._resyncs = resyncs

    def join(self, position: Position, steps: StreamSteps) -> Position:
        """Add the tables that have a new copy; returns `position` with the offsets that their replay has reached."""
        # asked once: a copy that is finished from here on joins with the next call
        resynced = self._resyncs.list_copied()
        if resynced:
            # the commit thread uses the same open tables that `forget` closes
            steps.await_commit()
            # another follower object has written the copy; this one looks for new copies of running tables only
            self._tables.forget(resynced)
        if self._tables.select(Joining):
            # the last cut decides which tables still join: the one of `position` has to be committed
            steps.await_commit()
            # asked again: a table may have been stopped or copied during that commit
            joining = self._tables.select(Joining)
            # in place of any offset of an older copy, which may be far behind, of a lost past, or of a topic that was
            # made anew since
            ends = {topic: at for s in joining.values() for topic, at in s.bookmark.topic_ends.items()}
            position = replace(position, next_offsets={**position.next_offsets, **ends})
            for topic in ends:
                # its place there may be one of a topic that is gone
                self._reader.forget(topic)
            late = {name: s.bookmark for name, s in joining.items() if not s.bookmark.covers(position.lsn)}
            if late:
                position = self._replay(late, position, steps)
            self._tables.adopt(joining)
        if resynced:
            marks = self._follower.bookmarks()
            copied_at = [marks[name].lsn for name in resynced if name in marks]
            # +1: the cut at `position` was written without these tables, only a later one has them
            self._resyncs.mark_joined(resynced, Lsn(max([*copied_at, position.lsn + 1])))
        return position

    def _replay(self, late: Mapping[TableName, Bookmark], position: Position, steps: StreamSteps) -> Position:
        """Apply to each of these tables the changes between its bookmark and `position`."""
        since = min(mark.lsn for mark in late.values())
        with Reader(self._log) as reader:
            # without duplicates: an END that was delivered twice would promise twice as many changes
            above = EndsAbove(reader, transaction_topic(self._log.prefix), since, position.log_start)
            ends = drop_applied(above.up_to(position.end_offset), None)
        topics = {change_topic(self._log.prefix, name) for name in late}
        offsets: Offsets = {topic: at for topic, at in position.next_offsets.items() if topic in topics}
        for stretch, names in _split_at_bookmarks(ends, late):
            joining, alone = [*map(str, names)], steps.schema_table
            # the driver reads the changes of these tables by itself, and none of the others'
            for run in cut_runs(stretch, self._bounds.most, alone=alone, scarce=joining, few=self._bounds.first):
                offsets = steps.apply_schema_changes(run, offsets)
                tables = [s.table for name, s in self._tables.select(Joining).items() if name in names]
                for read in read_parts(self._reader, run, tables, offsets):
                    offsets = read.next_offsets
                    # into the joining tables only, and without a cut: the others have these changes already
                    steps.report(self._follower.catch_up(read.batch))
                    reach("join.replayed")
        replayed = {topic: at for topic, at in offsets.items() if topic in topics}
        return replace(position, next_offsets={**position.next_offsets, **replayed})


def read_parts(reader: RunReader, run: Ends, tables: Sequence[Table], start: Offsets) -> Iterator[ReadRun]:
    """Read a run's changes of these tables in parts of at most MOST_RUN_BYTES, or of a single transaction."""
    waiting = [run]
    while waiting:
        part = waiting.pop()
        most = MOST_RUN_BYTES if len(part) > 1 else sys.maxsize
        try:
            read = reader.read(part, tables, start, most_bytes=most)
        except RunTooLargeError:
            half = len(part) // 2
            waiting += [part.slice(half, len(part)), part.slice(0, half)]
        else:
            yield read
            start = read.next_offsets


def _split_at_bookmarks(ends: Ends, bookmarks: Mapping[TableName, Bookmark]) -> Iterator[tuple[Ends, set[TableName]]]:
    """Split ENDs at the bookmarks; yields each part with the tables whose copies lie before it.

    A part before a table's own bookmark is read without it: the counts of the ENDs would ask for changes that its
    topic may already have been read beyond.
    """
    marks = sorted({mark.lsn for mark in bookmarks.values()})
    for start, stop in zip(marks, [*marks[1:], None], strict=True):
        inside = ends.lsn > start if stop is None else (ends.lsn > start) & (ends.lsn <= stop)
        yield ends.where(inside), {name for name, mark in bookmarks.items() if mark.lsn <= start}
