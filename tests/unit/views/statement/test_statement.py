"""A statement is read with its places: errors name them, and tables are renamed without any other change."""

import pytest

from cdc.core.errors import ConfigurationError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.views.statement.analysis.demand import list_read_columns
from cdc.views.statement.parsing import list_tables, parse_statement

CUSTOMERS = Table(TableName("public", "Customers"), (Column("Id", Kind.INTEGER), Column("name", Kind.TEXT)), ("Id",))
ORDERS = Table(TableName("sales", "orders"), (Column("id", Kind.INTEGER), Column("cid", Kind.INTEGER)), ("id",))
TABLES = {table.name: table for table in (CUSTOMERS, ORDERS)}


def test_tables_are_renamed_and_nothing_else() -> None:
    sql = "WITH o AS (SELECT * FROM sales.orders) SELECT /* cid */ c.ID FROM customers c JOIN o ON `o`.cid=c.id"
    statement = parse_statement("v", sql, TABLES)
    assert statement.rename_tables({CUSTOMERS.name: "t0", ORDERS.name: "t1"}) == (
        "WITH o AS (SELECT * FROM `t1` AS `orders`) SELECT /* cid */ c.ID FROM `t0` c JOIN o ON `o`.cid=c.id"
    )


def test_columns_lose_the_schema_of_a_renamed_table() -> None:
    sql = "SELECT sales.orders.id, `sales` . `orders`.* FROM sales.orders JOIN customers AS o"
    statement = parse_statement("v", sql, TABLES)
    assert statement.rename_tables({CUSTOMERS.name: "t0", ORDERS.name: "t1"}) == (
        "SELECT orders.id, `orders`.* FROM `t1` AS `orders` JOIN `t0` AS o"
    )


def test_names_are_found_whatever_their_case() -> None:
    sql = "SELECT NAME, c.cid FROM CUSTOMERS JOIN sales.Orders c ON cid = Customers.id"
    statement = parse_statement("v", sql, TABLES)
    assert list_read_columns(statement) == {CUSTOMERS.name: ["Id", "name"], ORDERS.name: ["cid"]}


def test_tables_of_a_statement_are_listed_without_knowing_them() -> None:
    sql = "WITH a AS (SELECT 1 FROM x.b) SELECT * FROM a, c WHERE EXISTS (SELECT 1 FROM x.d)"
    assert [str(name) for name in list_tables("v", sql)] == ["public.c", "x.b", "x.d"]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT *\nFROM nope", r"no table or view nope is followed \(line 2\)"),
        ("SELEC 1", "line 1, column 7"),
        ("SELECT x FROM customers", "'x' could not be resolved. Line: 1, Col: 8"),
        ("SELECT 1; SELECT 2", "it is no single SELECT"),
        ("DELETE FROM customers", "it is no single SELECT"),
        ("SELECT 1 FROM customers WHERE", "it is incomplete at line 1, column 29"),
        ("SELECT 'a FROM x", "Error tokenizing"),
    ],
)
def test_errors_name_their_place(sql: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parse_statement("v", sql, TABLES)
