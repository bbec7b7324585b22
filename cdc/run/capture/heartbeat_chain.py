"""Is a commit missing between the source and the log? The chain of heartbeats says so, in the log's own order.

A beat names the beat before it, and where the slot stood (`connect/source/heartbeat.py`). The log is whole up to a beat
when the beat before it in the log is the one that it names, and when the slot stood where Debezium had confirmed it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from cdc.columns.arrays import Integers
from cdc.columns.netting.changes import Changes, Op
from cdc.columns.netting.transactions import Ends
from cdc.core.errors import RECAPTURE, HistoryLostError
from cdc.core.position import Lsn, Offsets, Position, format_lsn
from cdc.log.clients.reader import Reader
from cdc.log.confirmed import ConfirmedLsns
from cdc.log.names import change_topic
from cdc.log.runs import RunReader
from cdc.log.settings import LogSettings
from connect.settings import SourceSettings
from connect.source.heartbeat import START, Beat, digest_of, heartbeat_table, read_beat

NEVER: Final = Lsn(2**63 - 1)


@dataclass(frozen=True, slots=True)
class CapturedBeat:
    """A beat as the log has it: its text, and its commit."""

    text: str
    commit: Lsn


IsConfirmed = Callable[[Lsn], bool]
"""Can Debezium have confirmed this LSN, by what the log has?"""


class HeartbeatChain:
    """Follows the heartbeats of one pipeline through the runs of one stream.

    `verifiable_from`: beats that committed before this LSN are in the log no more, and are not asked for.
    `is_confirmed` looks into the log for what this stream has not seen itself.
    """

    def __init__(
        self,
        reader: RunReader,
        source: SourceSettings,
        pipeline: str,
        verifiable_from: Lsn,
        is_confirmed: IsConfirmed,
    ) -> None:
        self._reader = reader
        self._table = heartbeat_table(source)
        self._pipeline = pipeline
        self._verifiable_from = verifiable_from
        self._is_confirmed = is_confirmed
        # behind a stretch that the log has no more, the first beat is taken as it comes
        self._is_taken_up = verifiable_from == 0
        self._commits = np.empty(0, np.int64)

    def check(self, run: Ends, before: Position, start: Offsets) -> tuple[str | None, Offsets]:
        """Check the beats of a run that follows on `before`.

        Gives the digest of the last beat, and the offsets where reading goes on.
        Raises HistoryLostError when the log lacks commits.
        """
        self._commits = np.concatenate([self._commits, run.lsn])
        beating = run.touching(str(self._table.name))
        beating = beating[run.lsn[beating] >= self._verifiable_from]
        if not len(beating):
            return before.beat, start
        chosen = np.zeros(len(run), np.bool_)
        chosen[beating] = True
        read = self._reader.read(run.where(chosen), [self._table], start)
        found = read.batch.changes[self._table.name]
        beats = _to_beats(found.changes, found.ranks, self._pipeline, run)
        last = before.beat if self._is_taken_up else None
        self._is_taken_up = True
        digest = check_beats(beats, last, self._is_captured)
        self._forget_confirmed(beats)
        return digest, read.next_offsets

    def _is_captured(self, lsn: Lsn) -> bool:
        at = int(np.searchsorted(self._commits, lsn))
        return (at < len(self._commits) and bool(self._commits[at] == lsn)) or self._is_confirmed(lsn)

    def _forget_confirmed(self, beats: Sequence[CapturedBeat]) -> None:
        """Slots only move on: what lies before the last one's place is not asked for again."""
        slots = [beat.slot_lsn or 0 for each in beats if (beat := read_beat(each.text))]
        if slots:
            self._commits = self._commits[np.searchsorted(self._commits, max(slots)) :]


def check_beats(beats: Sequence[CapturedBeat], last: str | None, is_confirmed: IsConfirmed) -> str | None:
    """The digest of the last of these beats; `last` is that of the beat before them, None where it is not known.

    A slot that stood where Debezium has confirmed nothing was moved, or the log lost what it had. Raises
    HistoryLostError where that was so, and where a beat is missing.
    """
    for each in beats:
        if digest_of(each.text) == last:
            # delivered twice
            continue
        if beat := read_beat(each.text):
            _check_slot(beat, is_confirmed)
            _check_previous(beat, each.commit, last)
        last = digest_of(each.text)
    return last


def _check_slot(beat: Beat, is_confirmed: IsConfirmed) -> None:
    slot = beat.slot_lsn
    if slot is not None and not is_confirmed(slot):
        raise _moved_slot_error(slot)


def _moved_slot_error(slot: Lsn) -> HistoryLostError:
    return HistoryLostError(
        f"the log lacks commits: the capture went on with its slot at {format_lsn(slot)}, and no commit of the log is"
        " at that LSN (somebody moved the slot, or made it anew, or the log lost its end)",
        RECAPTURE,
    )


def _check_previous(beat: Beat, commit: Lsn, last: str | None) -> None:
    if last is not None and beat.previous != last:
        raise HistoryLostError(
            f"the log lacks commits before {format_lsn(commit)}: heartbeats of the source are missing (the source was"
            " set back to an older state, or the log lost its end, or the publication left changes out)",
            RECAPTURE,
        )


def find_verifiable_lsn(reader: Reader, prefix: str, source: SourceSettings, position: Position) -> Lsn:
    """From which commit on the log has every heartbeat behind this position; 0 where it has all of them."""
    topic = change_topic(prefix, heartbeat_table(source).name)
    first = reader.beginning([topic])[topic].get(0, 0)
    if first <= position.next_offsets.get(topic, {}).get(0, 0):
        return Lsn(0)
    end = reader.end([topic])[topic].get(0, 0)
    # retention has passed this position: the oldest beat that is left is where the chain can be taken up again
    left = (record.value for record in reader.read(topic, 0, first, end) if record.value)
    return next((Lsn(_decode_envelope(each).source.lsn) for each in left), NEVER)


def check_ahead(log: LogSettings, source: SourceSettings, pipeline: str, position: Position) -> None:
    """Follow the heartbeats that the log has behind a position, without what lies between them.

    Raises HistoryLostError as `check_beats` does; of slots, only those are asked for with which a capture began.
    """
    topic = change_topic(log.prefix, heartbeat_table(source).name)
    with Reader(log) as reader:
        first, end = reader.beginning([topic])[topic].get(0, 0), reader.end([topic])[topic].get(0, 0)
        known = position.next_offsets.get(topic, {}).get(0, 0)
        records = [record.value for record in reader.read(topic, 0, max(first, known), end) if record.value]
    beats = [*_read_own_beats(records, pipeline, position.lsn)]
    check_beats(beats, position.beat if first <= known else None, lambda lsn: True)
    starts = {beat.slot_lsn or 0 for each in beats if (beat := read_beat(each.text)) and beat.mark == START}
    confirmed = ConfirmedLsns(log, position.log_start)
    for lsn in sorted(starts):
        if not confirmed.include(Lsn(lsn)):
            raise _moved_slot_error(Lsn(lsn))


class _Source(msgspec.Struct):
    """Where a change lies: above all commits before it, below its own."""

    lsn: int


class _Row(msgspec.Struct):
    pipeline: str = ""
    beat: str = ""


class _Envelope(msgspec.Struct):
    source: _Source
    after: _Row | None = None


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def _read_own_beats(messages: Iterable[bytes], pipeline: str, applied: Lsn) -> Iterator[CapturedBeat]:
    """The beats of a pipeline among messages, without those that were delivered before."""
    for each in map(_decode_envelope, messages):
        if each.after is not None and each.after.pipeline == pipeline and each.source.lsn > applied:
            applied = Lsn(each.source.lsn)
            yield CapturedBeat(each.after.beat, applied)


def _to_beats(changes: Changes, ends: Integers, pipeline: str, run: Ends) -> list[CapturedBeat]:
    """The versions of the pipeline's row, in the order of their commits; `ends`: the END's offset of each change."""
    order = np.lexsort((changes.total_order, ends))
    rows = changes.rows.take(order.tolist()).to_pylist()
    commits = run.lsn[np.searchsorted(run.offset, ends[order])].tolist()
    told = zip(rows, changes.op[order].tolist(), commits, strict=True)
    return [
        CapturedBeat(row["beat"], Lsn(lsn)) for row, op, lsn in told if op != Op.DELETE and row["pipeline"] == pipeline
    ]
