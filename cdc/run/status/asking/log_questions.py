"""What is asked of Kafka and Kafka Connect: the newest commits, read once, and whether the capture runs."""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import Final

from cdc.columns.netting.ends import Ends, concat_ends, to_columns
from cdc.core.errors import CdcError
from cdc.core.position import FIRST_LOG, LogStart, Position
from cdc.log.clients.administration import can_ask, open_administration, sum_bytes
from cdc.log.clients.reader import Reader
from cdc.log.names import kind_of_topic, transaction_topic
from cdc.log.transaction_topic import LAST_MESSAGES, log_bounds, read_ends_between
from cdc.run.health.capture_health import CaptureHealth, FindState, Look
from cdc.run.health.patience import AT_ONCE
from cdc.run.health.result import Failing
from cdc.run.pipeline import Pipeline
from cdc.run.status.asking.facts import CaptureLook, LogLook
from cdc.run.status.judging.rates import percentile

KEPT_HOPS: Final = 64
"""How many of the newest commits say how long the way into the log takes."""
KEPT_SECONDS: Final = 600.0
"""ENDs that no follower lacks are kept as long as this, for rates."""


class LogWindow:
    """The ENDs that some follower may lack, and the newest ones: each is read once. For one thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._topic = transaction_topic(pipeline.settings.log.prefix)
        self._reader: Reader | None = None
        self._forget()

    def _forget(self, start: LogStart = FIRST_LOG) -> None:
        self._start = start
        self._ends = to_columns(())
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
        return LogLook(self._ends, self._newest, self._newest_at, dict(self._changed_at), percentile([*self._hops], 50))

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
        older = self._between(reader, wanted, self._first) if wanted < self._first else to_columns(())
        newer = self._read_newer(reader, end)
        self._first, self._next = min(wanted, self._first), end
        self._note(newer if len(newer) else older)
        self._keep(concat_ends([older, self._ends, newer]), min(offsets, default=end))

    def _read_newer(self, reader: Reader, end: int) -> Ends:
        """Read on to the end; takes note of how long the newest commits took to the log."""
        written_ms = dict[int, int]()
        newer = read_ends_between(reader, self._topic, self._next, end, self._start, written_ms)
        newest = zip(newer.offset[-KEPT_HOPS:].tolist(), newer.committed_ms[-KEPT_HOPS:].tolist(), strict=True)
        # the clocks of two machines: none is written before its commit
        self._hops.extend(max(written_ms[offset] - committed, 0) / 1000 for offset, committed in newest)
        return newer

    def _between(self, reader: Reader, start: int, stop: int) -> Ends:
        return read_ends_between(reader, self._topic, start, stop, self._start)

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

    def _keep(self, ends: Ends, oldest: int) -> None:
        """Forget what no follower lacks and no rate needs."""
        recent = 1000 * (time.time() - KEPT_SECONDS)
        self._ends = ends.where((ends.offset > oldest) | (ends.committed_ms > recent))
        if len(self._ends) < len(ends):
            self._first = int(self._ends.offset[0]) if len(self._ends) else self._next


def read_log_bytes(pipeline: Pipeline) -> Mapping[str, int]:
    """The bytes of the pipeline's topics by their kind; nothing where the client that asks cannot log in.

    Raises CdcError when the cluster does not tell.
    """
    log = pipeline.settings.log
    if not can_ask(log):
        return {}
    with open_administration(log) as client:
        return sum_bytes(client, partial(kind_of_topic, log.prefix))


class CaptureQuestion:
    """Asks whether the capture runs; for one thread. `look`: how it looks whether data moves."""

    def __init__(self, pipeline: Pipeline, look: Look, find_state: FindState) -> None:
        # whether the slot was moved is asked by who asks for the continuity
        self._health = CaptureHealth(pipeline, look, find_state=find_state, asks_slot=False)

    def ask(self, *, is_log_current: bool, explains: bool = True) -> CaptureLook:
        """Judge the connector; and whether data moves, if the newest commit in the log is older than heartbeats take.

        `explains`: source and log are asked why a connector does not run.
        """
        health = self._health
        check = partial(health.check_connector, explains=explains) if is_log_current else health.check
        found = check(AT_ONCE)
        state = health.connector if health.connector and health.connector.state is not None else None
        return CaptureLook(state, health.silent, found if isinstance(found, Failing) else None)
