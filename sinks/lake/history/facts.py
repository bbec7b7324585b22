"""The facts that a history's log keeps about it: whose it is, which epoch, the shapes of its table, and its gaps.

They are a property of the Delta table (`cdc.history`). Whoever reads the history needs nothing else: neither the
configuration nor the table.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from cdc.core.errors import HistoryLostError
from cdc.core.position import Lsn, format_lsn
from cdc.core.table import Table, TableName
from cdc.sinks.lake.delta.snapshot import Snapshot
from cdc.sinks.lake.history.chain import BEGINNING
from cdc.sinks.lake.history.erased import ErasedBatch
from cdc.sinks.lake.layout import HISTORY_PROPERTY


@dataclass(frozen=True, slots=True, order=True)
class HistoryMoment:
    """A moment of a history: an LSN, and the time by which `_committed_at` counts, in ms since 1970."""

    lsn: int
    ms: int

    def is_after(self, at: Lsn | datetime) -> bool:
        """Is it later than this LSN or time?"""
        return self._own(at) > _number(at)

    def is_before(self, at: Lsn | datetime) -> bool:
        return self._own(at) < _number(at)

    def _own(self, at: Lsn | datetime) -> int:
        return self.ms if isinstance(at, datetime) else self.lsn

    def __str__(self) -> str:
        return format_lsn(Lsn(self.lsn))


@dataclass(frozen=True, slots=True)
class HistoryEnd:
    """The numbers of a history's last row and last batch, the chain up to it, and the moment of the row."""

    sequence: int = 0
    batch: int = 0
    chain: str = BEGINNING
    moment: HistoryMoment = HistoryMoment(0, 0)


@dataclass(frozen=True, slots=True)
class TrackedShape:
    """The columns of the table and its key, both in its own order, from a moment on."""

    since: HistoryMoment
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, since: HistoryMoment) -> Self:
        return cls(since, table.column_names, table.key)

    def is_of(self, table: Table) -> bool:
        return (self.columns, self.key) == (table.column_names, table.key)


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes committed after `since` and before `until` are in no row: the history goes on with a copy."""

    since: HistoryMoment
    until: HistoryMoment

    def has(self, at: Lsn | datetime) -> bool:
        return self.since.is_before(at) and self.until.is_after(at)


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """The facts of one epoch of a table's history.

    `after`: where the epoch before ended, whose numbers and chain it goes on with; from the beginning if nobody knows.
    `erased`: the batches of which rows were erased; `reached`: where the epoch stood then, whatever rows are left.
    """

    of: TableName
    epoch: int
    after: HistoryEnd
    shapes: tuple[TrackedShape, ...]
    gaps: tuple[Gap, ...] = ()
    erased: tuple[ErasedBatch, ...] = ()
    reached: HistoryEnd | None = None

    @property
    def floor(self) -> HistoryEnd:
        """Where the epoch ends at least: numbers of erased rows come no second time."""
        return self.reached or self.after

    @property
    def begins(self) -> HistoryMoment:
        return self.shapes[0].since

    @property
    def succeeds(self) -> HistoryMoment:
        """The moment up to which the epoch before this one has every change; its own beginning without one."""
        return min([self.begins, *(gap.since for gap in self.gaps[:1])])

    def beginning_at(self, table: Table, at: HistoryMoment) -> Self:
        """The same with its first rows at this moment."""
        gaps = tuple(replace(gap, until=at) for gap in self.gaps)
        return replace(self, shapes=(TrackedShape.of(table, at),), gaps=gaps)

    def with_shape(self, table: Table, since: HistoryMoment) -> Self:
        """The same with the table's present shape, if it is another one."""
        shape = TrackedShape.of(table, since)
        return self if self.shapes[-1].is_of(table) else replace(self, shapes=(*self.shapes, shape))

    def with_gap(self, gap: Gap) -> Self:
        """The same with a gap. One that began there already, and was not closed before a kill, ends later."""
        open_ = self.gaps[:-1] if self.gaps and self.gaps[-1].since == gap.since else self.gaps
        # a source that was put back has a lower LSN later
        is_there = gap.since.lsn < gap.until.lsn or gap.since.ms < gap.until.ms
        return replace(self, gaps=(*open_, gap)) if is_there else self

    def find_shape(self, at: Lsn | datetime) -> TrackedShape:
        """The shape at a moment. Raises HistoryLostError when nobody knows what was there then."""
        self.check_known(at)
        found = [shape for shape in self.shapes if not shape.since.is_after(at)]
        if not found:
            raise HistoryLostError(f"the history of {self.of} begins at {self.begins}", "ask for a later moment")
        return found[-1]

    def check_known(self, at: Lsn | datetime) -> None:
        """Raise HistoryLostError when the moment is in a gap."""
        for gap in self.gaps:
            if gap.has(at):
                raise HistoryLostError(
                    f"the history of {self.of} lacks what was committed between {gap.since} and {gap.until}",
                    "ask for an earlier moment, or a later one",
                )

    def as_property(self) -> Mapping[str, str]:
        """The facts as a property of the Delta table."""
        return {HISTORY_PROPERTY: json.dumps(self._as_json())}

    def _as_json(self) -> dict[str, Any]:
        return {
            "of": [self.of.schema, self.of.table],
            "epoch": self.epoch,
            "after": _end(self.after),
            "erased": [each.as_json() for each in self.erased],
            "reached": _end(self.reached) if self.reached else None,
            "shapes": [[*_pair(shape.since), shape.columns, shape.key] for shape in self.shapes],
            "gaps": [[*_pair(gap.since), *_pair(gap.until)] for gap in self.gaps],
        }


def read_facts(snapshot: Snapshot) -> HistoryFacts | None:
    """The facts of a history; None when the table is none."""
    text = snapshot.configuration.get(HISTORY_PROPERTY)
    if text is None:
        return None
    value = json.loads(text)
    return HistoryFacts(
        TableName(*value["of"]),
        value["epoch"],
        _read_end(value["after"]),
        tuple(_read_shapes(value["shapes"])),
        tuple(Gap(HistoryMoment(*gap[:2]), HistoryMoment(*gap[2:])) for gap in value["gaps"]),
        tuple(map(ErasedBatch.from_json, value["erased"])),
        _read_end(value["reached"]) if value["reached"] else None,
    )


def _read_end(value: Any) -> HistoryEnd:
    sequence, batch, chain, *moment = value
    return HistoryEnd(sequence, batch, chain, HistoryMoment(*moment))


def _end(end: HistoryEnd) -> list[int | str]:
    return [end.sequence, end.batch, end.chain, *_pair(end.moment)]


def _read_shapes(values: Any) -> Iterator[TrackedShape]:
    for lsn, ms, columns, key in values:
        yield TrackedShape(HistoryMoment(lsn, ms), tuple(columns), tuple(key))


def _number(at: Lsn | datetime) -> float:
    return at.timestamp() * 1000 if isinstance(at, datetime) else at


def _pair(moment: HistoryMoment) -> tuple[int, int]:
    return moment.lsn, moment.ms
