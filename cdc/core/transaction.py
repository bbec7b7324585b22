"""Transactions as the transaction topic tells them, and the runs of whole transactions that a batch is made of."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc.core.position import Lsn, Position
from cdc.core.refusal import Refusal


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """An END: its offset in the transaction topic ranks the transaction; `counts` says how many changes of which
    `schema.table` belong to it; `lsn` is the commit's; `committed_ms` is the source's clock, for people only."""

    offset: int
    tx_id: int
    lsn: Lsn
    committed_ms: int
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def changes(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Run:
    """Whole transactions in commit order, ready to be applied together."""

    ends: tuple[TransactionEnd, ...]

    @property
    def last(self) -> TransactionEnd:
        return self.ends[-1]

    def counts(self, tables: Iterable[str]) -> dict[str, int]:
        """How many changes each of these tables has in the run; tables without any are left out."""
        followed = set(tables)
        total: dict[str, int] = {}
        for end in self.ends:
            for table, count in end.counts.items():
                if table in followed:
                    total[table] = total.get(table, 0) + count
        return total

    def changes(self, tables: Iterable[str]) -> int:
        """How many changes these tables have in the run, all together."""
        return sum(self.counts(tables).values())

    def position(self, generation: int, next_offsets: Mapping[str, Mapping[int, int]]) -> Position:
        """Where a follower stands that has applied the run."""
        return Position(generation, self.last.offset, self.last.lsn, self.last.tx_id, next_offsets)


def parse_end(topic: str, offset: int, value: bytes | None) -> TransactionEnd | Refusal | None:
    """Read one message of the transaction topic: an END, None for a BEGIN, or why it is neither."""
    try:
        message = json.loads(value or b"null")
        if message["status"] == "BEGIN":
            return None
        if message["status"] == "END":
            return _end(offset, message)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Refusal(topic, 0, offset, f"not a transaction event ({type(error).__name__}: {error})")
    return Refusal(topic, 0, offset, f"unknown status {message['status']!r}")


def _end(offset: int, message: Mapping[str, Any]) -> TransactionEnd:
    tx_id, _, lsn = message["id"].partition(":")
    counts = {c["data_collection"]: int(c["event_count"]) for c in message["data_collections"] or ()}
    end = TransactionEnd(offset, int(tx_id), Lsn(int(lsn)), int(message["ts_ms"]), counts)
    if end.changes != int(message["event_count"]):
        raise ValueError(f"{message['event_count']} events, but the tables have {end.changes}")
    return end


def unapplied(ends: Iterable[TransactionEnd], position: Position | None) -> list[TransactionEnd]:
    """The ENDs behind `position` in commit order, without redeliveries.

    A connector that went back (kill -9 without exactly-once) sends committed transactions again at new offsets: their
    LSN is not above one that came before them.
    """
    fresh: list[TransactionEnd] = []
    offset, lsn = (position.end_offset, position.lsn) if position else (-1, Lsn(-1))
    for end in ends:
        if end.offset > offset and end.lsn > lsn:
            fresh.append(end)
            lsn = end.lsn
    return fresh


def cut_runs(ends: Sequence[TransactionEnd], budget: int, until: int = -1) -> list[Run]:
    """Cut ENDs into runs of at most `budget` changes, but at least one transaction each.

    The first run reaches the END at offset `until`, whatever its size: what a table has already applied, after a
    crash between two tables, has to be inside one run for the others.
    """
    runs: list[Run] = []
    taken: list[TransactionEnd] = []
    size = 0
    for end in ends:
        forced = not runs and taken and taken[-1].offset < until
        if taken and size + end.changes > budget and not forced:
            runs.append(Run(tuple(taken)))
            taken, size = [], 0
        taken.append(end)
        size += end.changes
    return [*runs, Run(tuple(taken))] if taken else runs
