"""DuckDB's results have the names that Spark gives: as they are written, or as a table has them behind a star."""

import pytest
from pyspark.sql import types as T

from cdc.core.table import Column, Kind, Table, TableName
from cdc.views.compiled import compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.statement.dialect.statements import DuckStatement
from cdc.views.statement.tree.spelling import spell_columns

A = Table(TableName("public", "a"), (Column("id", Kind.INTEGER), Column("camelCase", Kind.INTEGER)), ("id",))
TABLES = {A.name: A}
S = "(SELECT ID, camelCASE AS thE FROM a) s"


def names_of(sql: str) -> list[str | None]:
    """The names of the result's columns, and in them those of a struct's fields."""
    view = compile_view(ViewDefinition.of("v.v", sql, ["id"]), TABLES)
    assert isinstance(view.duckdb, DuckStatement)
    found = list[str | None]()
    for name, of in zip(spell_columns(view.statement.tree.root), view.duckdb.types, strict=True):
        fields = of.fieldNames() if isinstance(of, T.StructType) else []
        found += [name, *(f"{name}.{field}" for field in fields)]
    return found


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT ID, CAMELcase FROM a", ["ID", "CAMELcase"]),
        ("SELECT * FROM a", ["id", "camelCase"]),
        ("SELECT Id, struct(a.*) AS S FROM a", ["Id", "S", "S.id", "S.camelCase"]),
        ("SELECT id, struct(*) AS s FROM a", ["id", "s", "s.id", "s.camelCase"]),
        ("SELECT id, struct(a.CAMELCASE, a.ID AS Idd) AS s FROM a", ["id", "s", "s.CAMELCASE", "s.Idd"]),
        (f"SELECT id, struct(s.*) AS s FROM {S}", ["id", "s", "s.ID", "s.thE"]),
        (f"SELECT * FROM {S}", ["ID", "thE"]),
        ("SELECT u.* FROM a AS u(ID, Other)", ["ID", "Other"]),
        (
            "WITH q(Id, N) AS (SELECT id, camelCase FROM a) SELECT q.*, struct(q.*) AS s FROM q",
            ["Id", "N", "s", "s.Id", "s.N"],
        ),
        ("WITH Q AS (SELECT iD, camelCase + 1 AS N FROM a) SELECT q.*, q.N + 1 FROM q", ["iD", "N", None]),
        ("SELECT Id FROM a UNION SELECT camelCase AS Foo FROM a", ["Id"]),
        ("SELECT struct(camelcase) AS s, ID FROM a", ["s", "s.camelcase", "ID"]),
    ],
)
def test_names_are_spelled_as_spark_spells_them(sql: str, names: list[str | None]) -> None:
    """tests/spark/test_random_statements.py asks Spark."""
    assert names_of(sql) == names
