"""Tries aggregates, windows and whole statements in both engines."""

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Column, Kind, Table, TableName
from cdc.views.statement.dialect.statements import DuckStatement, write_statement
from cdc.views.statement.entrance.kinds import Kind as RegistryKind
from cdc.views.statement.entrance.kinds import kind_of
from cdc.views.statement.parsing import parse_statement
from tests.support.views.proof import T_NAME, Form, Outcome, form_over
from tests.support.views.statements.edge_values import EDGES, edge_table, to_array
from tests.support.views.two_engines import Engines

_MOST_SUMMED = 2**40
"""Larger integers are not summed here: floating averages of them depend on the order."""
GROUPED = (
    "SELECT n % 4 AS k, {} FROM t GROUP BY n % 4",
    "SELECT {} FROM t WHERE n < 0",
    "SELECT n % 2 AS k, {} FROM t WHERE a IS NULL GROUP BY n % 2",
)
"""Groups of several rows, of none, and of nulls."""
ROW_WISE = ("SELECT n, {} FROM t",)


def summable_table(of: str) -> tuple[Table, pa.Table]:
    """The edge values of a type, each twice, without integers whose sums have an error."""
    table, rows = edge_table((of,))
    if of == "bigint":
        small = pc.less_equal(pc.abs_checked(pc.max_element_wise(rows["a"], -(2**62))), _MOST_SUMMED)
        rows = rows.filter(pc.or_kleene(pc.is_null(rows["a"]), small))
    rows = pa.concat_tables([rows, rows])
    return table, rows.set_column(0, rows.schema.field(0), pa.array(range(len(rows)), pa.int32()))


def accepts(form: Form, frame: str, table: Table) -> bool:
    """Is the form on the list, in this statement over this table?"""
    statement = form_over(Form(form.name, frame.format(f"{form.text} AS v")), table)
    return isinstance(write_statement(statement, {T_NAME: "t"}), DuckStatement)


def prove_queries(engines: Engines, forms: Sequence[Form], frames: Sequence[str]) -> dict[Form, Outcome]:
    """Compare all forms that a type accepts, in one statement for each frame."""
    outcomes = dict[Form, Outcome]()
    for of in EDGES:
        table, rows = summable_table(of)
        mine = [form for form in forms if accepts(form, frames[0], table)]
        if not mine:
            continue
        engines.put(table, rows)
        for form in mine:
            outcomes.setdefault(form, Outcome()).types += 1
        columns = ", ".join(f"{form.text} AS v{at}" for at, form in enumerate(mine))
        for frame in frames:
            _compare(engines, frame.format(columns), mine, outcomes, of)
    return outcomes


def _compare(engines: Engines, sql: str, forms: Sequence[Form], outcomes: dict[Form, Outcome], of: str) -> None:
    spark, duckdb = engines.rows(sql)
    for at, form in enumerate(forms, -len(forms)):
        expected, actual = ([row[at] for row in rows] for rows in (spark, duckdb))
        outcomes[form].compared += len(expected)
        if expected != actual:
            differences = [pair for pair in zip(expected, actual, strict=False) if pair[0] != pair[1]]
            outcomes[form].differences.append(f"{of}: {differences[:1]} in Spark and DuckDB")


_DAY = 86_400_000_000


P = Table(
    TableName("public", "p"),
    (
        Column("id", Kind.INTEGER),
        Column("x", Kind.INTEGER),
        Column("t", Kind.TEXT),
        Column("d", Kind.DOUBLE),
        Column("m", Kind.DECIMAL, 12, 2),
        Column("at", Kind.TIMESTAMPTZ),
        Column("ok", Kind.BOOLEAN),
    ),
    ("id",),
)
Q = Table(
    TableName("public", "q"),
    (
        Column("id", Kind.BIGINT),
        Column("p_id", Kind.INTEGER),
        Column("y", Kind.INTEGER),
        Column("t", Kind.TEXT),
        Column("d", Kind.DOUBLE),
        Column("at", Kind.TIMESTAMPTZ),
    ),
    ("id",),
)
"""Two tables to join."""


def put_two_tables(engines: Engines) -> None:
    """Put rows into `p` and `q`, with nulls, doubles of many kinds and moments."""
    nan, texts = float("nan"), ["a", "b", "\u00e9", "e\u0301", "", None, "b", "a"]
    doubles = [nan, 0.0, -0.0, None, 1.5, float("inf"), nan, -1.5]
    _put(
        engines,
        P,
        [range(8), [1, 2, 2, None, 3, 1, 0, None], texts, doubles],
        [["1.25", "2.00", None, "3.10", "-9999999999.99", "2.00", "0.01", "7.77"]],
        [[0, _DAY, -1, None, _DAY + 5, 0, 3 * _DAY, _DAY], [True, False, None, True, None, False, True, True]],
    )
    _put(
        engines,
        Q,
        [range(1, 11), [0, 0, 1, 2, None, 9, 1, 3, 0, 5], [1, 2, 2, None, 3, 4, 0, 5, 2, 1], [*texts, None, "x"]],
        [],
        [[*doubles, 0.0, 2.5], [_DAY, -1, 5 * _DAY, None, 0, 1, 2, 3, 4, 5]],
    )


def _put(engines: Engines, table: Table, *parts: Sequence[Sequence[object]]) -> None:
    first, decimals, rest = parts
    texts = [[each if each is None else Decimal(str(each)) for each in values] for values in decimals]
    schema = arrow_schema(table)
    columns = [list(values) for values in (*first, *texts, *rest)]
    arrays = [to_array(values, of.type) for values, of in zip(columns, schema, strict=True)]
    engines.put(table, pa.Table.from_arrays(arrays, schema=schema))


def compare_statement(engines: Engines, sql: str) -> int:
    """Compare the rows of a statement; how many values it has."""
    spark, duckdb = engines.rows(sql)
    assert spark == duckdb, f"{sql}: {spark} in Spark, {duckdb} in DuckDB"
    return sum(map(len, spark))


def kinds_of_statement(sql: str) -> set[RegistryKind]:
    """The entries of the list that a statement over the two tables has in it."""
    statement = parse_statement("v", sql, {P.name: P, Q.name: Q})
    return {kind_of(node) for node in statement.tree.walk()}
