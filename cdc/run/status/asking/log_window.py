"""The newest commits in the log, each read once, and those that some follower lacks, the old ones in bundles."""

import time
from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

import numpy as np

from cdc.columns.netting.ends import Ends, bundle_ends, concat_ends, to_columns
from cdc.core.errors import CdcError
from cdc.core.position import FIRST_LOG, LogStart, Position
from cdc.log.clients.reader import Reader
from cdc.log.names import transaction_topic
from cdc.log.transaction_topic import LAST_MESSAGES, log_bounds, read_ends_between
from cdc.run.pipeline import Pipeline
from cdc.run.status.asking.facts import LogLook
from cdc.run.status.judging.rates import percentile

KEPT_HOPS: Final = 64
"""How many of the newest commits say how long the way into the log takes."""
KEPT_SECONDS: Final = 600.0
"""ENDs that no follower lacks are kept as long as this, for rates."""
EXACT: Final = 20_000
"""The newest ENDs, one by one. All others are in bundles: a look at a million of them took most of a core."""
YOUNG_MS, OLD_MS = 1_000, 60_000
"""How long the commits of a bundle lie apart at most: of the last KEPT_SECONDS, and of older ones."""
MESSAGES_AT_ONCE: Final = 200_000


class LogWindow:
    """The ENDs that some follower may lack, and the newest ones: each is read once. For one thread.

    So what a follower lacks is known to a bundle: a second of commits, or a minute of those that are old.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._topic = transaction_topic(pipeline.settings.log.prefix)
        self._reader: Reader | None = None
        self._forget()

    def _forget(self, start: LogStart = FIRST_LOG) -> None:
        self._start = start
        self._old = self._newest_ends = to_columns(())
        self._first = self._next = -1
        self._newest: Position | None = None
        self._newest_at: float | None = None
        self._changed_at: dict[str, float] = {}
        self._hops = deque[float](maxlen=KEPT_HOPS)

    def look(self, positions: Iterable[Position | None]) -> LogLook:
        """Read what is new since the last look, and what a follower at one of these positions may lack.

        Raises UnreachableError when the log does not answer.
        """
        known = [at for at in positions if at is not None]
        # of the present capture only: no follower still needs older ones
        start = max(known, key=attrgetter("end_offset")).log_start if known else self._start
        if start != self._start:
            self._forget(start)
        try:
            self._read([at.end_offset for at in known])
        except CdcError:
            self.close()
            raise
        ends = concat_ends([self._old, self._newest_ends])
        return LogLook(ends, self._newest, self._newest_at, dict(self._changed_at), percentile([*self._hops], 50))

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _read(self, offsets: list[int]) -> None:
        reader = self._reader = self._reader or self._pipeline.open_log()
        first, end = log_bounds(reader, self._topic, self._start)
        if end < self._next:
            # the topic was made anew
            self._forget(self._start)
        wanted = max(first, min([*offsets, end - LAST_MESSAGES]))
        if self._next < 0:
            self._first = self._next = wanted
        older = self._read_bundled(reader, wanted, self._first) if wanted < self._first else to_columns(())
        # behind these, a BEGIN and an END of each transaction
        exact = max(self._next, end - 2 * EXACT)
        newer = concat_ends([self._read_bundled(reader, self._next, exact), self._read_newest(reader, exact, end)])
        self._first, self._next = min(wanted, self._first), end
        self._note(older)
        self._note(newer)
        self._old = concat_ends([older, self._old])
        self._add(newer)
        self._drop(wanted)

    def _read_newest(self, reader: Reader, start: int, end: int) -> Ends:
        """Read on to the end; takes note of how long the newest commits took to the log."""
        last, written_ms = max(start, end - LAST_MESSAGES), dict[int, int]()
        newest = read_ends_between(reader, self._topic, last, end, self._start, written_ms)
        hops = zip(newest.offset[-KEPT_HOPS:].tolist(), newest.committed_ms[-KEPT_HOPS:].tolist(), strict=True)
        # the clocks of two machines: none is written before its commit
        self._hops.extend(max(written_ms[offset] - committed, 0) / 1000 for offset, committed in hops)
        return concat_ends([read_ends_between(reader, self._topic, start, last, self._start), newest])

    def _read_bundled(self, reader: Reader, start: int, stop: int) -> Ends:
        """Read ENDs that may be many, some at a time."""
        parts = [to_columns(())]
        for at in range(start, stop, MESSAGES_AT_ONCE):
            until = min(at + MESSAGES_AT_ONCE, stop)
            parts.append(_bundle(read_ends_between(reader, self._topic, at, until, self._start)))
        return concat_ends(parts)

    def _add(self, newer: Ends) -> None:
        ends = concat_ends([self._newest_ends, newer])
        # seldom: each time, all bundles are looked at again, since they have become older
        if len(ends) > 2 * EXACT:
            old = len(ends) - EXACT
            self._old = _bundle(concat_ends([self._old, ends.slice(0, old)]))
            ends = ends.slice(old, len(ends))
        self._newest_ends = ends

    def _note(self, ends: Ends) -> None:
        """Take in the newest commit of all, and of each table."""
        if not len(ends):
            return
        last = ends.last
        if self._newest is None or last.offset > self._newest.end_offset:
            self._newest = Position(last.offset, last.lsn, last.tx_id, log_start=self._start)
            self._newest_at = last.committed_ms / 1000
        for table in ends.tables:
            if len(rows := ends.touching(table)):
                at = float(ends.committed_ms[rows[-1]]) / 1000
                self._changed_at[table] = max(at, self._changed_at.get(table, at))

    def _drop(self, oldest: int) -> None:
        """Forget what lies before `oldest`, where this look began, and no rate needs."""
        self._old = self._drop_before(self._old, oldest)
        # in their order, so that what is known has no gap: commit times may go back with a clock
        if not len(self._old):
            self._newest_ends = self._drop_before(self._newest_ends, oldest)

    def _drop_before(self, ends: Ends, oldest: int) -> Ends:
        wanted = (ends.offset >= oldest) | (ends.committed_ms > _find_recent_ms())
        dropped = int(wanted.argmax()) if wanted.any() else len(ends)
        if dropped:
            # behind what is dropped: a bundle begins before its offset
            self._first = int(ends.offset[dropped - 1]) + 1
        return ends.slice(dropped, len(ends)) if dropped else ends


def _bundle(ends: Ends) -> Ends:
    """Bundle ENDs by the time of their commits: the older, the more of them."""
    at = np.maximum.accumulate(ends.committed_ms)
    return bundle_ends(ends, np.where(at > _find_recent_ms(), at // YOUNG_MS * YOUNG_MS, at // OLD_MS * OLD_MS))


def _find_recent_ms() -> float:
    """From when on ENDs are kept for rates, since 1970."""
    return 1000 * (time.time() - KEPT_SECONDS)
