"""Random histories over all tables of a case: inserts, updates, deletes, moved keys, TRUNCATE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from cdc.core.table import Column, Kind, Table, TableName
from tests.support.lake.cut_lake import CutLake
from tests.support.model import Row

MOST_CHANGES = 12
TRUNCATED = 0.08
"""The share of cuts in which a table is emptied."""


@dataclass(frozen=True, slots=True)
class Side:
    """A table, and the values that its columns take; few, so that rows meet."""

    table: Table
    values: Mapping[str, Sequence[Any]]

    @property
    def name(self) -> str:
        return self.table.name.table

    def row(self, random: Random) -> Row:
        return {column: random.choice(values) for column, values in self.values.items()}

    def key_of(self, row: Row) -> tuple[object, ...]:
        return tuple(row[column] for column in self.table.key)


def side(name: str, key: Sequence[str], values: Mapping[str, tuple[Kind, Sequence[Any]]]) -> Side:
    """A table by its columns: of what kind each is, and what it may be. A decimal has two digits behind the point."""
    columns = tuple(
        Column(column, kind, 12, 2) if kind is Kind.DECIMAL else Column(column, kind)
        for column, (kind, _) in values.items()
    )
    table = Table(TableName("public", name), columns, tuple(key))
    return Side(table, {column: taken for column, (_, taken) in values.items()})


def fill(source: CutLake, sides: Sequence[Side], random: Random, rows: int) -> None:
    for each in sides:
        for _ in range(rows):
            source.put(each.name, each.row(random))


def change(source: CutLake, sides: Sequence[Side], random: Random) -> None:
    """Change rows of any tables, for one cut."""
    for _ in range(random.randint(1, MOST_CHANGES)):
        _change_row(source, random.choice(sides), random)
    if random.random() < TRUNCATED:
        source.truncate(random.choice(sides).name)


def _change_row(source: CutLake, side: Side, random: Random) -> None:
    there, row = list(source.rows[side.name]), side.row(random)
    match random.randrange(5):
        case 0 if there:
            source.delete(side.name, random.choice(there))
        case 1 if there:
            # all but the key stays
            key = random.choice(there)
            moved = {**source.rows[side.name][key], **{column: row[column] for column in side.table.key}}
            source.delete(side.name, key)
            source.put(side.name, moved)
        case _:
            source.put(side.name, row)
