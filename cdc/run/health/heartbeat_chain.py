"""Finds commits that are missing in the log, by the chain of heartbeats in the log's own order.

A heartbeat names the one before it, and the slot's confirmed LSN (`connect/source/heartbeat.py`). The log is whole up
to a heartbeat when two things hold: the one before it in the log is the one that it names, and the slot stood at an LSN
that Debezium had confirmed, so at a commit in the log.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import msgspec
import numpy as np

from cdc.columns.arrays import Integers
from cdc.columns.netting.changes import Changes, Op
from cdc.columns.netting.ends import Ends
from cdc.connect.settings import SourceSettings
from cdc.connect.source.heartbeat import START, digest_of, heartbeat_table, read_beat
from cdc.connect.source.relation import parse_shape
from cdc.connect.source.schema_history import history_table
from cdc.core.errors import RECAPTURE, HistoryLostError
from cdc.core.position import Lsn, Offsets, Position, format_lsn
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader, read_span
from cdc.log.names import change_topic
from cdc.log.run_reader import RunReader
from cdc.log.settings import LogSettings
from cdc.run.health.confirmed import ConfirmedLsns

LAST_BEATS: Final = 1_000
"""Of all pipelines of a source: within so many of the last, each has one of its own."""
NEVER: Final = Lsn(2**63 - 1)
MOST_COMMITS: Final = 100_000
"""The most LSNs to remember: 800 kB. An older one is looked up in the log, which takes longer and says the same."""


@dataclass(frozen=True, slots=True)
class CapturedBeat:
    """A heartbeat in the log: its text, and the LSN of its commit."""

    text: str
    commit: Lsn


@dataclass(frozen=True, slots=True)
class ChainState:
    """What a chain remembers of the runs so far.

    `is_linked`: the next heartbeat has to name the last one. `commits`: the LSNs of the commits that this stream has
    read, ascending: a heartbeat's slot LSN has to be one of them. `has_slots`: heartbeats have a slot LSN; without our
    classes in Connect they have none, and nobody asks for a commit's.
    """

    is_linked: bool
    commits: Integers
    has_slots: bool = True

    def with_run(self, run: Ends) -> Self:
        """Remember the commits of a run."""
        commits = np.concatenate([self.commits, run.lsn])[-MOST_COMMITS:]
        return replace(self, commits=commits) if self.has_slots else self

    def without_confirmed(self, beats: Sequence[CapturedBeat]) -> Self:
        """Forget commits below the connector's last slot LSN: a slot only moves forwards. Without one, forget all."""
        read = [beat for captured in beats if (beat := read_beat(captured.text))]
        # the toolkit's own have a mark, and never a slot LSN
        slots = [beat.slot_lsn or 0 for beat in read if beat.mark in {None, START}]
        if not slots:
            return self
        has_slots = max(slots) > 0
        kept = np.searchsorted(self.commits, max(slots)) if has_slots else len(self.commits)
        return replace(self, commits=self.commits[kept:], has_slots=has_slots)

    def has_commit(self, lsn: Lsn) -> bool:
        at = int(np.searchsorted(self.commits, lsn))
        return at < len(self.commits) and bool(self.commits[at] == lsn)


@dataclass(frozen=True, slots=True)
class CheckedBeats:
    """The heartbeats of a run: the digest of the last one, and the offsets where reading goes on.

    `state`: the chain's behind the run. `are_routine`: the run has nothing but heartbeats of the connector. Whoever
    waits for a position writes one with a mark.
    """

    digest: str | None
    next_offsets: Offsets
    state: ChainState
    are_routine: bool = False


IsConfirmed = Callable[[Lsn], bool]
"""Is this the LSN of a commit in the log, which Debezium may therefore have confirmed?"""


class HeartbeatChain:
    """Follows the heartbeats of one pipeline through the runs of one stream.

    `verifiable_from`: heartbeats committed before this LSN have left the log, and are not checked. `is_confirmed` looks
    into the log for commits that this stream has not seen itself.
    """

    def __init__(
        self, reader: RunReader, source: SourceSettings, pipeline: str, verifiable_from: Lsn, is_confirmed: IsConfirmed
    ) -> None:
        self._reader = reader
        self._table = heartbeat_table(source)
        self._pipeline = pipeline
        self._verifiable_from = verifiable_from
        self._is_confirmed = is_confirmed
        # the log may have lost older heartbeats: then the first one is accepted without a check
        self._state = ChainState(verifiable_from == 0, np.empty(0, np.int64))

    def check(self, run: Ends, before: Position, start: Offsets) -> CheckedBeats:
        """Check the heartbeats of a run that follows on `before`; it counts once it is kept.

        Raises HistoryLostError when the log lacks commits.
        """
        state = self._state.with_run(run)
        last = before.beat if state.is_linked else None
        beating = run.touching(str(self._table.name))
        # the reader would wait for heartbeats that retention has deleted: the ENDs count them
        beating = beating[run.lsn[beating] >= self._verifiable_from]
        if not len(beating):
            return CheckedBeats(last, start, state)
        has_beat = np.zeros(len(run), np.bool_)
        has_beat[beating] = True
        read = self._reader.read(run.where(has_beat), [self._table], start)
        ranked = read.batch.changes[self._table.name]
        beats = _to_beats(ranked.changes, ranked.ranks, self._pipeline, run)
        digest = check_beats(beats, last, lambda lsn: state.has_commit(lsn) or self._is_confirmed(lsn))
        state = replace(state.without_confirmed(beats), is_linked=True)
        are_routine = len(beating) == len(run) and self._are_routine(run, beats)
        return CheckedBeats(digest, read.next_offsets, state, are_routine)

    def keep(self, checked: CheckedBeats) -> None:
        """Go on behind the checked run. One that is not kept may be checked again, in parts."""
        self._state = checked.state

    def _are_routine(self, run: Ends, beats: Sequence[CapturedBeat]) -> bool:
        # a change of any other table counts, followed or not; and a text that is no beat may be anything
        read = [read_beat(captured.text) for captured in beats]
        is_alone = run.counts([str(self._table.name)]) == run.counts(run.tables)
        return is_alone and all(beat is not None and beat.mark is None for beat in read)

    def unlink(self) -> None:
        """Accept any next heartbeat: the publication left heartbeats out, and says so (`schema_history.py`).

        The tables whose changes it left out then are copied again.
        """
        self._state = replace(self._state, is_linked=False)


def check_beats(
    beats: Sequence[CapturedBeat], last: str | None, is_confirmed: IsConfirmed, gaps: Sequence[Lsn] = ()
) -> str | None:
    """Check heartbeats; returns the digest of the last one. `last`: the digest before them, None if unknown.

    `gaps`, ascending: heartbeats may be missing there, as the schema history says (`HeartbeatChain.unlink`).

    Raises HistoryLostError when a heartbeat is missing, or the slot stood at an LSN that is not confirmed: somebody
    moved the slot, or the log lost its end.
    """
    known_gaps = deque(gaps)
    for captured in beats:
        if digest_of(captured.text) == last:
            # delivered twice
            continue
        while known_gaps and known_gaps[0] < captured.commit:
            known_gaps.popleft()
            last = None
        # one of an older version names no other, and the next one names it all the same
        if beat := read_beat(captured.text):
            slot = beat.slot_lsn
            if slot is not None and not is_confirmed(slot):
                raise _moved_slot_error(slot)
            if last is not None and beat.previous != last:
                raise HistoryLostError(
                    f"the log lacks commits before {format_lsn(captured.commit)}: heartbeats of the source are missing"
                    " (the source was set back to an older state, or the log lost its end, or the publication left"
                    " changes out)",
                    RECAPTURE,
                )
        last = digest_of(captured.text)
    return last


def _moved_slot_error(slot: Lsn) -> HistoryLostError:
    return HistoryLostError(
        f"the log lacks commits: the capture went on with its slot at {format_lsn(slot)}, and no commit of the log is"
        " at that LSN (somebody moved the slot, or made it anew, or the log lost its end)",
        RECAPTURE,
    )


def find_verifiable_lsn(reader: Reader, prefix: str, source: SourceSettings, position: Position) -> Lsn:
    """The LSN from which on the log has every heartbeat; 0 when it has all of them behind `position`."""
    topic = change_topic(prefix, heartbeat_table(source).name)
    first = reader.beginning([topic])[topic].get(0, 0)
    if first <= position.next_offsets.get(topic, {}).get(0, 0):
        return Lsn(0)
    end = reader.end([topic])[topic].get(0, 0)
    # retention has deleted heartbeats behind this position: the chain starts again at the oldest remaining one
    remaining = (record.value for record in reader.read(topic, 0, first, end) if record.value)
    return next((Lsn(_decode_envelope(message).source.lsn) for message in remaining), NEVER)


def check_ahead(log: LogSettings, source: SourceSettings, pipeline: str, position: Position) -> None:
    """Check the heartbeats that the log has behind a position, without reading the changes between them.

    Raises HistoryLostError as `check_beats` does. Slot LSNs are only checked for heartbeats that began a capture.
    """
    with Reader(log) as reader:
        is_whole, messages = _read_behind(reader, change_topic(log.prefix, heartbeat_table(source).name), position)
        _, history = _read_behind(reader, change_topic(log.prefix, history_table(source).name), position)
    beats = [*_read_own_beats(messages, pipeline, position.lsn)]
    gaps = [lsn for lsn in _read_gaps(history, source) if lsn > position.lsn]
    check_beats(beats, position.beat if is_whole else None, lambda lsn: True, gaps)
    read = [beat for captured in beats if (beat := read_beat(captured.text))]
    starts = {beat.slot_lsn or 0 for beat in read if beat.mark == START}
    confirmed = ConfirmedLsns(log, position.log_start, change_topic(log.prefix, heartbeat_table(source).name))
    for lsn in sorted(starts):
        if not confirmed.include(Lsn(lsn)):
            raise _moved_slot_error(Lsn(lsn))


class _Source(msgspec.Struct):
    """The LSN of a change: above all commits before it, below its own."""

    lsn: int


class _Row(msgspec.Struct):
    """A row of the heartbeats, or of the schema history."""

    pipeline: str = ""
    beat: str = ""
    schema: str = ""
    table: str = ""
    shape: str = ""


class _Envelope(msgspec.Struct):
    source: _Source
    after: _Row | None = None


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def find_last_beat(reader: Reader, topic: str, pipeline: str) -> str | None:
    """The newest heartbeat of a pipeline in the log; None if there is none among the last ones."""
    first, end = read_span(reader, topic)
    records = reader.read(topic, 0, max(first, end - LAST_BEATS), end)
    envelopes = (_decode_envelope(record.value) for record in records if record.value)
    beats = [read.after.beat for read in envelopes if read.after is not None and read.after.pipeline == pipeline]
    return beats[-1] if beats else None


def _read_behind(reader: Reader, topic: str, position: Position) -> tuple[bool, list[bytes]]:
    """Read the messages of a topic behind a position; also, whether the log still has all of them."""
    first, end = reader.beginning([topic])[topic].get(0, 0), reader.end([topic])[topic].get(0, 0)
    known = position.next_offsets.get(topic, {}).get(0, 0)
    messages = [record.value for record in reader.read(topic, 0, max(first, known), end) if record.value]
    return first <= known, messages


def _read_own_beats(messages: Iterable[bytes], pipeline: str, applied: Lsn) -> Iterator[CapturedBeat]:
    """The heartbeats of a pipeline in these messages, without duplicates and those at or below `applied`."""
    for message in map(_decode_envelope, messages):
        if message.after is not None and message.after.pipeline == pipeline and message.source.lsn > applied:
            applied = Lsn(message.source.lsn)
            yield CapturedBeat(message.after.beat, applied)


def _read_gaps(messages: Iterable[bytes], source: SourceSettings) -> Iterator[Lsn]:
    """The LSNs at which the publication of the heartbeats has changed, by these messages of the schema history."""
    beats = heartbeat_table(source).name
    for message in map(_decode_envelope, messages):
        row = message.after
        is_beats = row is not None and TableName(row.schema, row.table) == beats
        if row and is_beats and source.publication in parse_shape(row.shape).moved:
            yield Lsn(message.source.lsn)


def _to_beats(changes: Changes, ends: Integers, pipeline: str, run: Ends) -> list[CapturedBeat]:
    """The versions of the pipeline's row, in commit order. `ends`: per change, the offset of its END."""
    # by transaction first, then by the order within it
    order = np.lexsort((changes.number, ends))
    rows = changes.rows.take(order.tolist()).to_pylist()
    commits = run.lsn[np.searchsorted(run.offset, ends[order])].tolist()
    versions = zip(rows, changes.op[order].tolist(), commits, strict=True)
    return [
        CapturedBeat(row["beat"], Lsn(lsn))
        for row, op, lsn in versions
        if op != Op.DELETE and row["pipeline"] == pipeline
    ]
