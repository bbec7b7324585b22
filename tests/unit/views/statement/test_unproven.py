"""Only what means the same in both engines goes to DuckDB, and what gives another result each time nowhere."""

import pyarrow as pa
import pytest

from cdc.core.table import Column, Kind, Table, TableName
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.statement.analysis.determinism import find_refused
from cdc.views.statement.dialect.statements import DuckStatement, write_statement
from cdc.views.statement.dialect.values import Unproven
from cdc.views.statement.parsing import parse_statement

T = Table(
    TableName("public", "t"),
    (
        Column("id", Kind.INTEGER),
        Column("l", Kind.BIGINT),
        Column("d", Kind.DOUBLE),
        Column("m", Kind.DECIMAL, 12, 2),
        Column("long", Kind.DECIMAL, 38, 18),
        Column("s", Kind.TEXT),
        Column("at", Kind.TIMESTAMPTZ),
    ),
    ("id",),
)
U = Table(TableName("public", "u"), (Column("id", Kind.BIGINT), Column("t_id", Kind.INTEGER)), ("id",))
TABLES = {each.name: each for each in (T, U)}


def find_unproven(sql: str) -> list[Unproven]:
    found = write_statement(parse_statement("v", sql, TABLES), {name: str(name) for name in TABLES})
    return found if isinstance(found, list) else []


def unproven(sql: str) -> list[str]:
    return [f"{each.name} at {each.line}:{each.column}" for each in find_unproven(sql)]


def whys(sql: str) -> list[str]:
    return [each.why for each in find_unproven(sql)]


def test_every_unproven_expression_is_named_with_its_place() -> None:
    sql = "SELECT id,\n  regexp_replace(s, 'a', 'b') AS r,\n  soundex(s) AS x\nFROM t\nWHERE s RLIKE 'b' AND id > 1"
    assert unproven(sql) == ["regexp_like at 5:7", "regexp_replace at 2:3", "soundex at 3:3"]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("sum(d)", "the order of addition matters"),
        ("max(d)", "of double"),
        ("long * long", "more than 38 digits"),
        ("max_by(s, id)", "not on the list"),
        ("round(d, 2)", "behind the point"),
        ("CAST(d AS STRING)", "double to string"),
        ("s = 1", "string with int"),
        ("'it''s'", "two literals side by side"),
        ("m + 2L", "a bigint literal beside a decimal"),
        ("map('a', 1)", "not on the list"),
        ("struct((id), s)", "a column in parentheses"),
    ],
)
def test_a_function_may_be_proven_for_some_types_only(expression: str, why: str) -> None:
    [found] = whys(f"SELECT {expression} AS v FROM t")
    assert why in found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s FROM t LIMIT 3",
        "SELECT s, count(*) AS n FROM t GROUP BY s WITH ROLLUP",
        "SELECT s, d FROM t GROUP BY s, d",
        "SELECT DISTINCT d FROM t",
        "SELECT id FROM t TABLESAMPLE (10 PERCENT)",
        "SELECT explode(array(1)) AS e FROM t",
        "SELECT e FROM t LATERAL VIEW explode(array(1)) x AS e",
        "SELECT v FROM VALUES (1) AS x (v)",
        "SELECT d FROM t UNION SELECT d FROM t",
        "SELECT id, max(l) AS l FROM t GROUP BY id HAVING l > 1",
        "SELECT t.s FROM t FULL JOIN u USING (id) WHERE id > 1",
        "SELECT t.s FROM t, u RIGHT JOIN t t2 USING (id)",
    ],
)
def test_a_clause_that_is_not_known_is_not_proven(sql: str) -> None:
    assert unproven(sql)


@pytest.mark.parametrize(
    "expression",
    [
        "id = l > 1",
        "id & l | 1",
        "'x' || id - 1",
        "s || 'x' LIKE 'a' = TRUE",
        "l BETWEEN 1 AND 2 = TRUE",
    ],
)
def test_operators_that_the_parsers_group_differently_are_not_proven(expression: str) -> None:
    assert "without parentheses" in "".join(whys(f"SELECT {expression} AS v FROM t"))


@pytest.mark.parametrize(
    ("window", "is_proven"),
    [
        ("row_number() OVER (PARTITION BY s ORDER BY l, id)", True),
        ("row_number() OVER (PARTITION BY s ORDER BY l)", False),
        ("rank() OVER (PARTITION BY s ORDER BY l)", True),
        ("lag(l) OVER (ORDER BY at)", False),
        ("sum(l) OVER (ORDER BY at)", True),
        ("sum(l) OVER (ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", False),
        ("sum(l) OVER (ORDER BY l RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", False),
    ],
)
def test_a_window_is_proven_if_rows_that_tie_do_not_matter(window: str, is_proven: bool) -> None:
    assert (not unproven(f"SELECT id, {window} AS v FROM t")) is is_proven


@pytest.mark.parametrize(
    ("expression", "is_proven"),
    [
        ("collect_list(s)", True),
        ("size(collect_list(s))", True),
        ("sort_array(collect_list(struct(id, s)))", True),
        ("array_contains(collect_list(s), 'x')", True),
        ("element_at(collect_list(s), 1)", False),
        ("count(DISTINCT collect_list(s))", False),
    ],
)
def test_nothing_depends_on_the_order_of_a_collected_list(expression: str, is_proven: bool) -> None:
    assert (not unproven(f"SELECT {expression} AS v FROM t GROUP BY id")) is is_proven


def test_a_statement_is_written_with_the_types_that_spark_gives() -> None:
    statement = parse_statement("v", "SELECT id + l AS a, m / 3 AS b, sum(m) AS c FROM t GROUP BY id, l, m", TABLES)
    found = write_statement(statement, {name: f"#{name}" for name in TABLES})
    assert isinstance(found, DuckStatement)
    assert [of.simpleString() for of in found.types] == ["bigint", "decimal(16,6)", "decimal(22,2)"]


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("rand()", "rand"),
        ("uuid()", "uuid"),
        ("current_timestamp()", "current_timestamp"),
        ("current_date", "current_date"),
        ("now()", "now"),
        ("monotonically_increasing_id()", "monotonically_increasing_id"),
        ("input_file_name()", "input_file_name"),
        ("spark_partition_id()", "spark_partition_id"),
        ("first(s)", "first"),
        ("first(s) IGNORE NULLS", "first"),
        ("any_value(s)", "any_value"),
        ("last_value(s)", "last_value"),
        ("shuffle(array(1, 2))", "shuffle"),
        ("unix_timestamp()", "current_timestamp"),
        ("current_user()", "current_user"),
    ],
)
def test_what_is_not_deterministic_is_refused_by_name_and_place(expression: str, name: str) -> None:
    [found] = find_refused(parse_statement("v", f"SELECT id,\n {expression} AS v FROM t", TABLES))
    assert found.name == name
    assert found.line in (2, 0)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT first_value(s) OVER (PARTITION BY l ORDER BY id) AS v FROM t",
        "SELECT max(s) AS v FROM t",
        "SELECT id FROM t ORDER BY id LIMIT 3",
    ],
)
def test_what_an_order_makes_certain_is_not_refused(sql: str) -> None:
    assert not find_refused(parse_statement("v", sql, TABLES))


def test_a_limit_without_an_order_is_refused() -> None:
    assert find_refused(parse_statement("v", "SELECT id FROM t LIMIT 3", TABLES))


def nested(function: str, column: str, depth: int) -> str:
    """The SQL of a function that is called so often."""
    expression = column
    for _ in range(depth):
        expression = function.format(expression)
    found = write_statement(parse_statement("v", f"SELECT {expression} AS v FROM t", TABLES), {T.name: "t"})
    assert isinstance(found, DuckStatement)
    return found.sql


@pytest.mark.parametrize(
    ("function", "column"),
    [
        *(("upper({})", "s"), ("trim({})", "s"), ("concat({}, 'x')", "s")),
        *(("substring({}, -2)", "s"), ("CAST(CAST({} AS INT) AS STRING)", "s"), ("nullif({}, 'x')", "s")),
        *(("pmod({}, 3)", "id"), ("{} % 3", "id"), ("{} div 2", "l"), ("({}) / 3", "d"), ("nullif({}, 1.5)", "id")),
        *(("date_trunc('hour', {})", "at"), ("CASE WHEN {} BETWEEN 1 AND 2 THEN 1 ELSE 0 END", "id")),
    ],
)
def test_its_sql_grows_no_faster_than_an_expression(function: str, column: str) -> None:
    sizes = [len(nested(function, column, depth)) for depth in (2, 4, 6, 20)]
    assert sizes[1] - sizes[0] == sizes[2] - sizes[1]
    assert sizes[3] - sizes[2] == 7 * (sizes[2] - sizes[1])


@pytest.mark.parametrize(("function", "column"), [("upper({})", "s"), ("pmod({}, 3)", "l"), ("nullif({}, 1.5)", "l")])
def test_nested_functions_are_computed_soon(function: str, column: str) -> None:
    """A macro whose body had its argument twice would be a text of 2^40 calls."""
    row = pa.table({"l": [7], "s": ["x"]})
    assert Evaluator().evaluate(nested(function, column, 40), {"t": row}).num_rows == 1


def test_an_operand_of_case_is_repeated_for_each_branch_and_goes_to_spark_before_its_sql_grows() -> None:
    expression = "id"
    for _ in range(12):
        expression = f"CASE {expression} WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE 4 END"
    assert "too long" in whys(f"SELECT {expression} AS v FROM t")[0]


def test_long_lists_are_no_growth() -> None:
    values = ", ".join(f"'{number}'" for number in range(5000))
    assert whys(f"SELECT s FROM t WHERE s IN ({values})") == []
