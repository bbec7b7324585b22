"""What a change of a table's schema means for those who follow it."""

from dataclasses import replace

import pytest

from cdc.core.schema_change import REWRITTEN, Altered, SameShape, Widened, diff_tables, has_more_columns
from cdc.core.table import Column, Kind, Table, TableName

ID, TOTAL, NOTE = (
    Column("id", Kind.INTEGER, number=1),
    Column("total", Kind.DECIMAL, 10, 2, number=2),
    Column("note", Kind.TEXT, number=3),
)
NEW = Column("new", Kind.DATE, number=4)
TABLE = Table(TableName("public", "t"), (ID, TOTAL, NOTE), ("id",))
WIDER = replace(TABLE, columns=(ID, TOTAL, NOTE, NEW))


def test_the_same_table() -> None:
    assert diff_tables(TABLE, Table.from_json(TABLE.as_json())) == SameShape()


def test_columns_that_come_are_null_in_older_rows() -> None:
    found = diff_tables(TABLE, WIDER)
    assert found == Widened(WIDER, "column new came")
    assert isinstance(found, Widened)
    assert [column.added for column in found.table.columns] == [False, False, False, True]
    later = diff_tables(found.table, replace(WIDER, columns=(*WIDER.columns, Column("more", Kind.TEXT, number=5))))
    assert isinstance(later, Widened)
    assert [column.added for column in later.table.columns] == [False, False, False, True, True]
    assert Table.from_json(later.table.as_json()).columns[3].added


def test_columns_that_come_with_values_need_a_copy() -> None:
    assert diff_tables(TABLE, WIDER, filled=["new"]) == Altered("column new came, with a default")
    # a default of a column that was there before fills no row that is there
    assert isinstance(diff_tables(TABLE, WIDER, filled=["note"]), Widened)


def test_rewritten_rows_need_a_copy() -> None:
    assert diff_tables(TABLE, TABLE, rewritten=True) == Altered(REWRITTEN)
    assert diff_tables(TABLE, WIDER, rewritten=True) == Altered("column new came")


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (replace(TABLE, columns=(ID, TOTAL)), "column note went"),
        (replace(TABLE, columns=(ID, TOTAL, replace(NOTE, name="text"))), "column text came, column note went"),
        (replace(TABLE, columns=(ID, TOTAL, replace(NOTE, array=True))), "column note was text and is text[]"),
        (replace(TABLE, columns=(ID, replace(TOTAL, precision=12), NOTE)), "column total was decimal(10, 2) and is"),
        (replace(TABLE, key=("id", "total")), "its key was (id) and is (id, total)"),
        (replace(WIDER, key=("id", "new")), "column new came, its key was (id) and is (id, new)"),
        (replace(TABLE, columns=(ID, TOTAL, replace(NOTE, number=9))), "column note went and came again"),
        (replace(TABLE, columns=(NOTE, ID, TOTAL)), "its columns stand in another order"),
    ],
)
def test_whatever_else_changes_needs_a_copy(now: Table, told: str) -> None:
    found = diff_tables(TABLE, now)
    assert isinstance(found, Altered)
    assert found.description.startswith(told)


def test_a_table_widens_another_of_the_same_key() -> None:
    assert has_more_columns(TABLE, WIDER)
    assert not has_more_columns(TABLE, TABLE)
    assert not has_more_columns(WIDER, TABLE)
    assert not has_more_columns(TABLE, replace(WIDER, key=("note",)))
