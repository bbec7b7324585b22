"""The differences between a copied table and the source's are named."""

import re
from dataclasses import replace

import pytest

from cdc.core.table import Column, Kind, Table, TableName
from cdc.run.tables.schema_check import describe_difference

ID, TOTAL, NOTE = Column("id", Kind.INTEGER), Column("total", Kind.DECIMAL, 10, 2), Column("note", Kind.TEXT, number=3)
TABLE = Table(TableName("public", "t"), (ID, TOTAL, NOTE), ("id",))


def test_the_same_table() -> None:
    assert describe_difference(TABLE, Table.from_json(TABLE.as_json())) is None


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (replace(TABLE, columns=(ID, TOTAL, NOTE, Column("new", Kind.DATE))), "column new came"),
        (replace(TABLE, columns=(ID, TOTAL)), "column note went"),
        (
            replace(TABLE, columns=(ID, Column("total", Kind.DECIMAL, 10, 4), NOTE)),
            r"column total was decimal\(10, 2\) and is decimal\(10, 4\)",
        ),
        (replace(TABLE, key=("id", "total")), r"its key was \(id\) and is \(id, total\)"),
        (replace(TABLE, columns=(NOTE, ID, TOTAL)), "its columns stand in another order"),
        (replace(TABLE, columns=(ID, TOTAL, replace(NOTE, number=9))), "column note went and came again"),
    ],
)
def test_differences_are_named(now: Table, told: str) -> None:
    found = describe_difference(TABLE, now)
    assert found is not None
    assert re.match(rf"public\.t has changed since it was copied: {told} → stop `cdc follow`", str(found))
