"""The transaction topic, which has the order of commits: reads ENDs, and checks positions."""

from collections.abc import Sequence
from typing import Final

from cdc.columns.netting.ends import Ends, UnreadableEventError, concat_ends, parse_confirmed_lsn, read_ends
from cdc.core.errors import RECAPTURE, HistoryLostError, PreconditionError
from cdc.core.position import FIRST_LOG, LogStart, Lsn, Position, format_lsn
from cdc.core.transaction import TransactionEnd
from cdc.log.clients.reader import Reader, read_span

BEGIN: Final = b'{"status":"BEGIN"'
"""The first bytes of every second message of the transaction topic, which need not be parsed."""
AT_A_TIME: Final = 20_000
"""Messages in memory at a time, before they become columns, which take a tenth of the memory."""
LAST_MESSAGES = 200
"""Messages of the transaction topic to read at once in search of a near END."""


def parse_ends(topic: str, offsets: Sequence[int], values: Sequence[bytes | None]) -> Ends:
    """Parse the ENDs among messages, in order; raises PreconditionError for a message that is no event."""
    # a message without a value is no event: it is refused, not skipped
    own = [at for at, value in enumerate(values) if not (value or b"").startswith(BEGIN)]
    try:
        return read_ends(topic, [offsets[at] for at in own], [values[at] for at in own])
    except UnreadableEventError as error:
        raise unreadable_order_error(topic, str(error.refusal)) from None


def unreadable_order_error(topic: str, why: str) -> PreconditionError:
    return PreconditionError(f"the order of commits cannot be read: {why}", f"only Debezium may write {topic}")


def read_ends_between(
    reader: Reader,
    topic: str,
    start: int,
    stop: int,
    log_start: LogStart = FIRST_LOG,
    written_ms: dict[int, int] | None = None,
) -> Ends:
    """The ENDs at the offsets start ≤ offset < stop of the count that begins at `log_start`.

    `written_ms` gets when each message of these offsets was written. Raises as `parse_ends` and `Reader.read` do.
    """
    found: list[Ends] = []
    pieces = reader.read_offsets(topic, 0, log_start.to_topic_offset(start), log_start.to_topic_offset(stop))
    # a busy pipeline's status reads every END: without a record for each message
    for offsets, values, at_ms in pieces:
        if written_ms is not None:
            written_ms |= zip(map(log_start.to_end_offset, offsets), at_ms, strict=True)
        found.append(parse_ends(topic, offsets, values))
    return concat_ends(found).to_positions(log_start)


def log_bounds(reader: Reader, topic: str, log_start: LogStart = FIRST_LOG) -> tuple[int, int]:
    """Read the first remaining offset of the capture that begins at `log_start`, and the offset behind its last.

    Both are END offsets of positions.
    """
    first, end = read_span(reader, topic)
    # older messages belong to an earlier capture
    first = max(first, log_start.topic_offset)
    return log_start.to_end_offset(first), log_start.to_end_offset(max(first, end))


def last_end(reader: Reader, topic: str) -> TransactionEnd | None:
    """Read the newest END; None if there is none among the last messages."""
    first, end = read_span(reader, topic)
    ends = read_ends_between(reader, topic, max(first, end - LAST_MESSAGES), end)
    return ends.last if len(ends) else None


def check_position(reader: Reader, topic: str, position: Position) -> None:
    """Read the END at the position again and compare.

    Raises HistoryLostError when the log ends before it, begins behind it, or has another event there: then this is not
    the log of this position.
    """
    begins = reader.beginning([topic])[topic]
    first, behind = begins.get(0), reader.end([topic])[topic].get(0)
    if len(begins) > 1:
        raise added_partitions_error(topic, len(begins))
    if first is None or behind is None:
        raise no_order_error(topic)
    at = position.topic_offset
    # before its first transaction a follower needs the topic from the next offset on
    if first > at + (0 if position.has_end else 1):
        raise HistoryLostError(f"{topic} begins at {first}, behind this follower's {at}", RECAPTURE)
    if at >= behind:
        raise HistoryLostError(f"{topic} ends at {behind}, before this follower's {at}", RECAPTURE)
    if position.has_end:
        found = _first_end(reader, topic, at, at)
        if found is None or (found.lsn, found.tx_id) != (position.lsn, position.tx_id):
            raise HistoryLostError(
                f"{topic} holds another event at offset {at} than the commit at {format_lsn(position.lsn)} that was"
                " applied",
                RECAPTURE,
            )


def no_order_error(topic: str) -> HistoryLostError:
    return HistoryLostError(f"there is no topic {topic}, which holds the order of the commits", RECAPTURE)


def added_partitions_error(topic: str, partitions: int) -> HistoryLostError:
    """Make the error for a transaction topic with added partitions: some commits are not in the first one."""
    return HistoryLostError(
        f"topic {topic} has {partitions} partitions: the order of commits was in its only one", RECAPTURE
    )


def lost_end_error(topic: str, tx_id: int) -> HistoryLostError:
    """Make the error for a transaction that began, and whose END never comes (`BegunTransactions`)."""
    what = f"{topic} has no END of transaction {tx_id}: Kafka Connect was killed before it sent it"
    return HistoryLostError(what, RECAPTURE)


def has_confirmed(reader: Reader, topic: str, lsn: Lsn, log_start: LogStart) -> bool | None:
    """Is there a commit at this LSN, or a BEGIN that confirmed this LSN?

    None if BEGINs have no confirmed LSNs (without `ConfirmedLsn.java`). Raises HistoryLostError when the topic no
    longer has that part.
    """
    result = None
    first, behind = log_bounds(reader, topic, log_start)
    # above the LSN before: the END at `lsn` itself is wanted
    low = _before_first_above(reader, topic, Lsn(lsn - 1), behind, log_start)
    # a session's first BEGIN names no LSN: those before it show that others do
    low = max(low - LAST_MESSAGES, first)
    for record in reader.peek(topic, 0, log_start.to_topic_offset(low), log_start.to_topic_offset(behind)):
        found = parse_ends(topic, [record.offset], [record.value])
        confirmed = parse_confirmed_lsn(record.value or b"{}")
        result = False if confirmed is not None else result
        if confirmed == lsn or (len(found) and found.last.lsn == lsn):
            return True
        # commits are in the order of their LSNs: none behind this one is at `lsn`
        if len(found) and found.last.lsn > lsn:
            break
    return result


def find_covered(reader: Reader, topic: str, start: int, lsn: Lsn) -> frozenset[int]:
    """The ids of the transactions with an END from the topic's offset `start` on that committed at or below `lsn`."""
    first, end = read_span(reader, topic)
    found = set[int]()
    for record in reader.read(topic, 0, max(start, first), end):
        ends = parse_ends(topic, [record.offset], [record.value])
        if len(ends) and ends.last.lsn > lsn:
            # commits are in the order of their LSNs
            break
        found.update(ends.tx_id.tolist())
    return frozenset(found)


class EndsAbove:
    """The ENDs of commits above an LSN, read lazily; for one thread at a time."""

    def __init__(self, reader: Reader, topic: str, lsn: Lsn, log_start: LogStart = FIRST_LOG) -> None:
        self._reader = reader
        self._topic = topic
        self._lsn = lsn
        self._log_start = log_start
        self._found: list[Ends] = []
        self._next = 0

    def up_to(self, offset: int) -> Ends:
        """Read those up to this offset. Raises HistoryLostError when the topic no longer has the first."""
        if not self._found:
            self._next = _before_first_above(self._reader, self._topic, self._lsn, offset, self._log_start)
        if offset >= self._next:
            self._found.append(read_ends_between(self._reader, self._topic, self._next, offset + 1, self._log_start))
            self._next = offset + 1
        ends = concat_ends(self._found)
        return ends.where((ends.lsn > self._lsn) & (ends.offset <= offset))


def _before_first_above(reader: Reader, topic: str, lsn: Lsn, until: int, log_start: LogStart) -> int:
    """Find an offset at or shortly before the first END above `lsn`: commits are in the order of their LSNs.

    Steps back from `until` in growing steps, since the END is usually near, then halves the last step.
    """
    first = log_start.to_end_offset(max(reader.beginning([topic])[topic].get(0, 0), log_start.topic_offset))

    def is_above(offset: int) -> bool:
        # the offset may be a BEGIN or a marker: take the next END
        end = _first_end(reader, topic, log_start.to_topic_offset(offset), log_start.to_topic_offset(until))
        return end is None or end.lsn > lsn

    step = LAST_MESSAGES
    low, high = max(until - step, first), until
    while low > first and is_above(low):
        step *= 8
        low, high = max(until - step, first), low
    while high - low > LAST_MESSAGES:
        middle = (low + high) // 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    # the first remaining END is above `lsn`: retention may have deleted others above it
    if low == first > log_start.end_offset and is_above(first):
        raise HistoryLostError(f"{topic} begins behind {format_lsn(lsn)}", "bootstrap the table again")
    return low


def _first_end(reader: Reader, topic: str, start: int, until: int) -> TransactionEnd | None:
    for record in reader.peek(topic, 0, start, until + 1):
        found = parse_ends(topic, [record.offset], [record.value])
        if len(found):
            return found.last
    return None
