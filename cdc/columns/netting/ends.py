"""The order of commits as columns: a million single-row transactions have a million ENDs.

Input: messages of the transaction topic. Output: ENDs. An END's offset is the rank of its transaction.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from cdc.columns.arrays import Integers, Mask
from cdc.core.errors import PicklableError
from cdc.core.position import LogStart, Lsn, Offsets, Position
from cdc.core.refusal import Refusal
from cdc.core.transaction import TransactionEnd


# gc=False: there are millions, none is part of a cycle, and the collector would visit each of them
class _Collection(msgspec.Struct, gc=False):
    data_collection: str
    event_count: int


class _Event(msgspec.Struct, gc=False):
    """Debezium's event for the begin and the end of a transaction."""

    status: str
    id: str = ""
    ts_ms: int | None = None
    event_count: int | None = None
    data_collections: list[_Collection] | None = None


class _Confirming(msgspec.Struct, gc=False):
    """The field that our transformation adds (`connect/plugin/ConfirmedLsn.java`)."""

    lsn_commit: int | None = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_confirming = msgspec.json.Decoder(_Confirming).decode


def parse_confirmed_lsn(value: bytes) -> Lsn | None:
    """Read the LSN that Debezium confirms to the slot from a BEGIN or a Debezium heartbeat; None if there is none."""
    lsn = _decode_confirming(value).lsn_commit
    return None if lsn is None else Lsn(lsn)


def parse_transaction_id(value: bytes) -> int:
    """Read the id of the transaction of a BEGIN or an END; raises MsgspecError and ValueError for anything else."""
    # Debezium's id is txId:lsn
    return int(_decode(value).id.partition(":")[0])


class UnreadableEventError(PicklableError):
    """A message of the transaction topic is no transaction event."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Ends:
    """ENDs in the order of their offsets, one in each row.

    `changes`: the number of changes in the transaction. `committed_ms`: since 1970, by the source's clock. Three
    columns of their own length have the counts by table: `counted[i]` changes of `tables[table[i]]` belong to the END
    in row `end[i]`; `end` ascends.
    """

    offset: Integers
    tx_id: Integers
    lsn: Integers
    committed_ms: Integers
    changes: Integers
    end: Integers
    table: Integers
    counted: Integers
    tables: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.offset)

    def slice(self, start: int, stop: int) -> "Ends":
        """Select the ENDs of the rows start ≤ row < stop."""
        # `end` ascends in every `Ends`: `where` and `concat_ends` preserve that
        first, last = np.searchsorted(self.end, (start, stop))
        counts = slice(first, last)
        own = self.end[counts] - start
        return self._rows(slice(start, stop), own, self.table[counts], self.counted[counts])

    def where(self, mask: Mask) -> "Ends":
        """Select the ENDs where `mask` is true."""
        if mask.all():
            return self
        counts = mask[self.end]
        new_row = np.cumsum(mask) - 1
        return self._rows(mask, new_row[self.end[counts]], self.table[counts], self.counted[counts])

    def _rows(self, at: Any, end: Integers, table: Integers, counted: Integers) -> "Ends":
        return Ends(
            self.offset[at],
            self.tx_id[at],
            self.lsn[at],
            self.committed_ms[at],
            self.changes[at],
            end,
            table,
            counted,
            self.tables,
        )

    def touching(self, table: str) -> Integers:
        """Find the rows of ENDs with changes of a table, in order."""
        if table not in self.tables:
            return np.empty(0, np.int64)
        return np.unique(self.end[self.table == self.tables.index(table)])

    def changes_of(self, tables: Iterable[str]) -> Integers:
        """Count the changes of these tables in each END."""
        own = self._select_counts(tables)
        return np.bincount(self.end[own], self.counted[own], len(self)).astype(np.int64)

    def commit_times(self, tables: Iterable[str]) -> list[int]:
        """When the transactions with changes of these tables were committed, in ms since 1970: none of a heartbeat."""
        times: list[int] = self.committed_ms[np.unique(self.end[self._select_counts(tables)])].tolist()
        return times

    def first_touching(self, tables: Iterable[str]) -> int | None:
        """The row of the first END with changes of any of these tables, if there is one."""
        own = self._select_counts(tables)
        return int(self.end[own.argmax()]) if own.any() else None

    def _select_counts(self, tables: Iterable[str]) -> Mask:
        """Of each count, whether it is one of these tables'."""
        wanted = set(tables)
        return np.isin(self.table, [code for code, name in enumerate(self.tables) if name in wanted])

    def counts(self, followed: Iterable[str]) -> dict[str, int]:
        """Count the changes of each of these tables; tables without any are left out."""
        sums = np.bincount(self.table, self.counted, len(self.tables)).astype(np.int64)
        wanted = set(followed)
        return {name: int(n) for name, n in zip(self.tables, sums, strict=True) if n and name in wanted}

    def values(self) -> Iterator[TransactionEnd]:
        """The ENDs one by one."""
        counts: list[dict[str, int]] = [{} for _ in range(len(self))]
        for row, table, count in zip(self.end.tolist(), self.table.tolist(), self.counted.tolist(), strict=True):
            counts[row][self.tables[table]] = count
        columns = (column.tolist() for column in (self.offset, self.tx_id, self.lsn, self.committed_ms))
        for (offset, tx_id, lsn, committed), own in zip(zip(*columns, strict=True), counts, strict=True):
            yield TransactionEnd(offset, tx_id, Lsn(lsn), committed, own)

    @property
    def last(self) -> TransactionEnd:
        return next(self.slice(len(self) - 1, len(self)).values())

    def position(self, before: Position, next_offsets: Offsets) -> Position:
        """The position after all of these ENDs, for a follower that was at `before`."""
        last = len(self) - 1
        lsn, tx_id = Lsn(int(self.lsn[last])), int(self.tx_id[last])
        return replace(before, end_offset=int(self.offset[last]), lsn=lsn, tx_id=tx_id, next_offsets=next_offsets)

    def to_positions(self, start: LogStart) -> "Ends":
        """Convert the topic's offsets to END offsets of positions."""
        shift = start.to_end_offset(0)
        return replace(self, offset=self.offset + shift) if shift else self


def read_ends(topic: str, offsets: Sequence[int], values: Sequence[bytes | None]) -> Ends:
    """Read messages of the transaction topic, in order; BEGINs are left out.

    Raises UnreadableEventError for the first that is neither a BEGIN nor an END, or whose counts contradict each other.
    """
    ends: list[tuple[int, _Event]] = []
    for offset, value in zip(offsets, values, strict=True):
        try:
            # a tombstone is no event either: as null it fails to decode
            event = _decode(value or b"null")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            # partition 0: this topic has no other
            raise UnreadableEventError(Refusal(topic, 0, offset, f"not a transaction event ({error})")) from None
        if event.status == "END":
            ends.append((offset, event))
        elif event.status != "BEGIN":
            raise UnreadableEventError(Refusal(topic, 0, offset, f"unknown status {event.status!r}"))
    return _columns(topic, ends)


def to_columns(ends: Iterable[TransactionEnd]) -> Ends:
    """Convert ENDs from values to columns."""
    own = list(ends)
    counts = [(row, name, count) for row, end in enumerate(own) for name, count in end.counts.items()]
    rows = [(end.offset, end.tx_id, end.lsn, end.committed_ms, end.changes) for end in own]
    return _to_ends(rows, counts)


def concat_ends(parts: Sequence[Ends]) -> Ends:
    """The ENDs of all parts, one part behind the other."""
    if len(parts) < 2:
        return parts[0] if parts else to_columns(())
    codes: dict[str, int] = {}
    starts = np.cumsum([0, *map(len, parts)])
    # each part has its own numbers for the tables
    tables = [np.array([codes.setdefault(name, len(codes)) for name in part.tables], np.int64) for part in parts]
    return Ends(
        np.concatenate([part.offset for part in parts]),
        np.concatenate([part.tx_id for part in parts]),
        np.concatenate([part.lsn for part in parts]),
        np.concatenate([part.committed_ms for part in parts]),
        np.concatenate([part.changes for part in parts]),
        np.concatenate([part.end + start for part, start in zip(parts, starts, strict=False)]),
        np.concatenate([own[part.table] for part, own in zip(parts, tables, strict=True)]),
        np.concatenate([part.counted for part in parts]),
        tuple(codes),
    )


def bundle_ends(ends: Ends, groups: Integers) -> Ends:
    """The ENDs of each group as one: offset, transaction and LSN of its last, the time of its first, all its changes.

    `groups`: a number for each END, which does not descend.
    """
    if not len(ends):
        return ends
    first = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    last = np.append(first[1:], len(groups)) - 1
    row = np.cumsum(np.bincount(first, minlength=len(groups))) - 1
    # one count for each table in each bundle
    tables = max(len(ends.tables), 1)
    keys, place = np.unique(row[ends.end] * tables + ends.table, return_inverse=True)
    end, table = np.divmod(keys, tables)
    counted = np.bincount(place, ends.counted, len(keys)).astype(np.int64)
    changes = np.add.reduceat(ends.changes, first)
    at = (ends.offset[last], ends.tx_id[last], ends.lsn[last], ends.committed_ms[first])
    return Ends(*at, changes, end, table, counted, ends.tables)


def _columns(topic: str, events: Sequence[tuple[int, _Event]]) -> Ends:
    rows, counts = [], []
    for row, (offset, event) in enumerate(events):
        # Debezium's id is txId:lsn, with another LSN in every event of a transaction: in the END it is the commit's
        tx_id, _, lsn = event.id.partition(":")
        own = [(row, c.data_collection, c.event_count) for c in event.data_collections or ()]
        counts += own
        # a single-row transaction has one count: no generator for each of a million ENDs
        total = own[0][2] if len(own) == 1 else sum(count for _, _, count in own)
        # a run is read until these counts are reached: a wrong count would look like lost changes
        if total != event.event_count or event.ts_ms is None or not (tx_id.isdecimal() and lsn.isdecimal()):
            reason = (
                f"not a transaction event ({event.event_count} events, but the tables have {total}; id {event.id!r})"
            )
            raise UnreadableEventError(Refusal(topic, 0, offset, reason))
        rows.append((offset, int(tx_id), int(lsn), event.ts_ms, total))
    return _to_ends(rows, counts)


def _to_ends(rows: Sequence[tuple[int, ...]], counts: Sequence[tuple[int, str, int]]) -> Ends:
    codes: dict[str, int] = {}
    # copied after the transposition, so that each column is contiguous
    offset, tx_id, lsn, committed_ms, changes = np.array(rows, np.int64).reshape(-1, 5).T.copy()
    named = [(row, codes.setdefault(name, len(codes)), count) for row, name, count in counts]
    end, table, counted = np.array(named, np.int64).reshape(-1, 3).T.copy()
    return Ends(offset, tx_id, lsn, committed_ms, changes, end, table, counted, tuple(codes))
