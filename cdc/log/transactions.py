"""The transaction topic: where the order of commits stands, and whether a follower's position is still in it."""

from collections.abc import Sequence

from cdc.columns.ends import Ends, UnreadableEvent, read_ends
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.core.position import BEFORE_LOG, Lsn, Position, format_lsn
from cdc.core.transaction import TransactionEnd
from cdc.log.clients.reader import Reader

LAST_MESSAGES = 200
"""Messages of the transaction topic that are read to find the last END, where no follower is behind."""


def ends_of(topic: str, offsets: Sequence[int], values: Sequence[bytes | None]) -> Ends:
    """The ENDs among messages, in order; raises PreconditionError for one that is no event."""
    try:
        return read_ends(topic, offsets, values)
    except UnreadableEvent as error:
        raise PreconditionError(
            f"the order of commits cannot be read: {error.refusal}", f"only Debezium may write {topic}"
        ) from None


def ends_in(reader: Reader, topic: str, start: int, stop: int) -> Ends:
    """The ENDs at the offsets start ≤ offset < stop. Raises as `ends_of` and `Reader.read` do."""
    records = list(reader.read(topic, 0, start, stop))
    return ends_of(topic, [record.offset for record in records], [record.value for record in records])


def last_end(reader: Reader, topic: str) -> TransactionEnd | None:
    """The newest END, if there is one among the last messages."""
    first, end = reader.beginning([topic])[topic].get(0, 0), reader.end([topic])[topic].get(0, 0)
    ends = ends_in(reader, topic, max(first, end - LAST_MESSAGES), end)
    return ends.last if len(ends) else None


def check_position(reader: Reader, topic: str, position: Position) -> None:
    """Read the event at the position again and compare.

    Raises HistoryLostError when the log ends before it, begins behind it, or holds another event there: then the
    offsets of this position mean nothing in this log.
    """
    first, behind = reader.beginning([topic])[topic].get(0), reader.end([topic])[topic].get(0)
    if first is None or behind is None:
        raise PreconditionError(f"there is no topic {topic}", "run `cdc bootstrap`")
    remedy = "bootstrap again: this follower's history is gone"
    # before its first transaction a follower needs the topic from offset 0 on
    if first > position.end_offset + (1 if position.end_offset == BEFORE_LOG else 0):
        raise HistoryLostError(f"{topic} begins at {first}, behind this follower's {position.end_offset}", remedy)
    if position.end_offset == BEFORE_LOG:
        return
    if position.end_offset >= behind:
        raise HistoryLostError(f"{topic} ends at {behind}, before this follower's {position.end_offset}", remedy)
    _compare(reader, topic, position, remedy)


def ends_between(reader: Reader, topic: str, after: Lsn, until: Position) -> Ends:
    """The ENDs of commits above `after`, up to and with the one of `until`.

    Raises HistoryLostError when the topic no longer holds the first of them.
    """
    start = _first_above(reader, topic, after, until.end_offset)
    ends = ends_in(reader, topic, start, until.end_offset + 1)
    return ends.where(ends.lsn > after)


def _first_above(reader: Reader, topic: str, lsn: Lsn, until: int) -> int:
    """Halve the topic until the first END above `lsn` is found: commits stand in the order of their LSNs."""
    first = low = reader.beginning([topic])[topic][0]
    high = until
    while low < high:
        middle = (low + high) // 2
        # a BEGIN or a marker may lie in the middle: the next END behind it is asked
        end = _first_end(reader, topic, middle, until)
        if end is not None and end.lsn <= lsn:
            low = middle + 1
        else:
            high = middle
    # the first END that is left is above `lsn`: others, above it as well, may have gone
    if low == first > 0:
        raise HistoryLostError(f"{topic} begins behind {format_lsn(lsn)}", "bootstrap the table again")
    return low


def _first_end(reader: Reader, topic: str, start: int, until: int) -> TransactionEnd | None:
    for record in reader.read(topic, 0, start, until + 1):
        found = ends_of(topic, [record.offset], [record.value])
        if len(found):
            return found.last
    return None


def _compare(reader: Reader, topic: str, position: Position, remedy: str) -> None:
    ends = ends_in(reader, topic, position.end_offset, position.end_offset + 1)
    if not len(ends) or (ends.last.lsn, ends.last.tx_id) != (position.lsn, position.tx_id):
        raise HistoryLostError(
            f"{topic} holds another event at offset {position.end_offset} than the commit at"
            f" {format_lsn(position.lsn)} that was applied",
            remedy,
        )
