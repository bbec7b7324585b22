"""What a statement may have is let in by a list: the rest makes its view whole, or is refused by name and place."""

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from sqlglot import exp

from cdc.core.errors import ConfigurationError
from cdc.core.table import NUMERIC, Column, Kind, Table, TableName
from cdc.sinks.lake.history.shape import history_table
from cdc.views.compiled import CompiledView, compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.explanation import explain
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.statement.dialect.registry import AGGREGATES, PROVEN
from cdc.views.statement.dialect.statements import DuckStatement
from cdc.views.statement.entrance.allowed_nodes import KNOWN
from cdc.views.statement.entrance.functions import (
    AGGREGATE_NAMES,
    OPAQUE_CLASSES,
    OPAQUE_NAMES,
    PURE_CLASSES,
    PURE_NAMES,
    REFUSED,
)
from cdc.views.statement.entrance.kinds import kind_of
from cdc.views.statement.parsing import parse_query
from tests.unit.views.refresh.test_refresh import table

AT = table("at", id=Kind.INTEGER, at=Kind.TIMESTAMPTZ, d=Kind.DATE, t=Kind.TEXT)
A = table("a", id=Kind.INTEGER, x=Kind.INTEGER, t=Kind.TEXT, f=Kind.DOUBLE, m=Kind.NUMERIC)
B = table("b", id=Kind.BIGINT, a_id=Kind.INTEGER, y=Kind.INTEGER)
C = table("c", id=Kind.INTEGER, a_id=Kind.INTEGER, z=Kind.INTEGER)
VERSIONS = Table(TableName("public", "a_history"), (*A.columns, Column("_sequence", Kind.BIGINT)), ("id", "_sequence"))
TABLES = {each.name: each for each in (A, B, C, AT, VERSIONS)}


def compiled(sql: str, *key: str) -> CompiledView:
    return compile_view(ViewDefinition.of("shop.v", sql, key or ["id"]), TABLES)


def function_classes(of: type[exp.Expr] = exp.Func) -> set[type[exp.Expr]]:
    return {kind for child in of.__subclasses__() for kind in (child, *function_classes(child))}


def test_every_function_of_sqlglot_is_in_one_set() -> None:
    refused = {kind for kind in REFUSED if not isinstance(kind, str)}
    sets = (refused, PURE_CLASSES, OPAQUE_CLASSES)
    assert {kind for each in sets for kind in each} == function_classes()
    assert sum(map(len, sets)) == len(function_classes())


def test_every_name_is_in_one_set_and_sqlglot_has_no_class_for_it() -> None:
    refused = {kind for kind in REFUSED if isinstance(kind, str)}
    names = [*refused, *PURE_NAMES, *AGGREGATE_NAMES, *OPAQUE_NAMES]
    assert len(names) == len({*names})
    for name in names:
        # as a call of any number of arguments reads it
        found = {kind_of(_call(name, count)) for count in range(1, 4)}
        assert name in found or name == "user", (name, found)


def _call(name: str, count: int) -> exp.Expr:
    try:
        [call] = parse_query("v", f"SELECT {name}({', '.join('xyz'[:count])}) FROM t").selects
    except ConfigurationError:
        return exp.Null()
    return call.unalias()


def test_what_is_proven_is_known() -> None:
    for kind in PROVEN.keys() | AGGREGATES.keys():
        known = PURE_NAMES | AGGREGATE_NAMES if isinstance(kind, str) else PURE_CLASSES | KNOWN.keys()
        assert kind in known, kind


JOINED = "FROM a LEFT JOIN b ON b.a_id = a.id"
REFUSALS = {
    "randstr (line 1, column 12)": "SELECT id, randstr(5) AS v FROM a",
    "uniform": "SELECT id, uniform(1, 9) AS v FROM a",
    "aes_encrypt": "SELECT id, aes_encrypt(t, 'k') AS v FROM a",
    "reflect": "SELECT id FROM a WHERE t = reflect('java.util.UUID', 'randomUUID')",
    "java_method": "SELECT id, java_method('java.lang.System', 'nanoTime') AS v FROM a",
    "try_reflect": "SELECT id, try_reflect('java.lang.System', 'nanoTime') AS v FROM a",
    "transform": "SELECT TRANSFORM (id) USING 'cat' AS (id) FROM a",
    "as of": "SELECT id FROM a VERSION AS OF 3",
    "as of ": "SELECT id FROM a TIMESTAMP AS OF '2026-01-01'",
    "today": "SELECT id, DATE'today' AS v FROM a",
    "now UTC": "SELECT id FROM a WHERE TIMESTAMP'now UTC' > '2026-01-01'",
    " Yesterday": "SELECT id, TIMESTAMP_NTZ' Yesterday' AS v FROM a",
    "${env:HOME} (line 2, column 6)": "SELECT id,\n    '${env:HOME}' AS v FROM a",
    "group_concat": f"SELECT a.id, string_agg(b.y) AS v {JOINED} GROUP BY a.id",
    "group_concat ": f"SELECT a.id, listagg(b.y, ',') WITHIN GROUP (ORDER BY b.id) AS v {JOINED} GROUP BY a.id",
    "array_sort": "SELECT a_id AS id, array_sort(collect_list(y), (l, r) -> 0) AS v FROM b GROUP BY a_id",
    "row_number": "SELECT id, row_number() OVER (PARTITION BY x ORDER BY t) AS v FROM a",
    "lag": f"SELECT b.id, lag(y) OVER (PARTITION BY a.x ORDER BY a.id) AS v {JOINED}",
    "row_number ": "SELECT id, row_number() OVER w AS v FROM a WINDOW w AS (PARTITION BY x ORDER BY t)",
    "count": "SELECT id, count(*) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS v FROM a",
    "limit": "SELECT id, x FROM a ORDER BY x LIMIT 3",
    "limit ": "SELECT id, x FROM a UNION ALL SELECT a_id, y FROM b ORDER BY x LIMIT 3",
    "offset": "SELECT id, x FROM a ORDER BY x OFFSET 3",
    "arg_max": "SELECT x AS id, max_by(t, f) AS v FROM a GROUP BY x",
    "sum": "SELECT x AS id, sum(f) AS v FROM a GROUP BY x",
    "avg": "SELECT x AS id, avg(2 * f) AS v FROM a GROUP BY x",
    "avg ": "SELECT k AS id, avg(v) AS v FROM (SELECT x AS k, coalesce(f, 0) AS v FROM a UNION ALL SELECT 1, y FROM b)"
    " GROUP BY k",
    "sum ": "SELECT a_id AS id, sum(y / id) AS v FROM b GROUP BY a_id",
    "sum  ": "SELECT x AS id, sum(m) AS v FROM a GROUP BY x",
    "sum   ": "SELECT id, sum(f) OVER (PARTITION BY x) AS v FROM a",
    "mean": "SELECT x AS id, mean(f) AS v FROM a GROUP BY x",
    "stddev": "SELECT x AS id, stddev(id) AS v FROM a GROUP BY x",
    "corr": "SELECT x AS id, corr(id, x) AS v FROM a GROUP BY x",
    "as (…)": "SELECT id, posexplode(array(x)) AS (p, v) FROM a",
    "as (…) ": "SELECT stack(2, 1, id) AS (id) FROM a",
    "as (…)  ": "SELECT json_tuple(t, 'a', 'b') AS (id, v) FROM a",
    "*": "SELECT * FROM b PIVOT (count(id) FOR y IN (1, 2))",
    "a parameter": "SELECT id FROM a WHERE x = :p",
    "range": "SELECT id FROM range(10)",
    "tablesample": "SELECT id FROM a TABLESAMPLE (10 PERCENT)",
}


@pytest.mark.parametrize(("told", "sql"), REFUSALS.items(), ids=REFUSALS)
def test_what_gives_two_answers_is_refused_by_name_and_place(told: str, sql: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        compiled(sql)
    assert error.value.what.startswith(f"views.shop.v: {told.split(' (')[0].rstrip()}")
    assert "is refused" in error.value.what
    assert told.partition(" (line")[2] in error.value.what


OF_THE_TIME = [
    "SELECT id FROM at WHERE at < 'tomorrow'",
    "SELECT id FROM at WHERE 'Today' > d",
    "SELECT id FROM at WHERE d BETWEEN ' yesterday' AND DATE'2030-01-01'",
    "SELECT id FROM at WHERE d IN (DATE'2026-01-01', 'today UTC')",
    "SELECT id, coalesce(d, 'today') AS v FROM at",
    "SELECT id, CASE WHEN id > 1 THEN d ELSE 'today' END AS v FROM at",
    "SELECT id, CASE at WHEN 'now' THEN 1 END AS v FROM at",
    "SELECT id, if(id > 1, 'now', at) AS v FROM at",
    "SELECT id, to_date('now') AS v FROM at",
    "SELECT id, to_timestamp_ntz('now') AS v FROM at",
    "SELECT id, try_to_date('today') AS v FROM at",
    "SELECT id, date_add('today', 1) AS v FROM at",
    "SELECT id, year('now') AS v FROM at",
    "SELECT id, datediff('today', d) AS v FROM at",
    "SELECT id, date_trunc('day', 'now') AS v FROM at",
    "SELECT id, CAST(concat('to', 'day') AS DATE) AS v FROM at",
    "SELECT s.id FROM (SELECT id, max(d) AS d FROM at GROUP BY id) s WHERE s.d < 'today'",
]


@pytest.mark.parametrize("sql", OF_THE_TIME)
def test_a_text_that_spark_takes_for_the_present_is_refused(sql: str) -> None:
    with pytest.raises(ConfigurationError, match="it depends on when the view is computed"):
        compiled(sql)


LATER = history_table(replace(A, columns=(*A.columns, Column("d", Kind.DOUBLE, type=NUMERIC, chosen="double"))), 2)
OF_NUMERICS = [
    ("SELECT x AS id, sum(m) AS v FROM a GROUP BY x", ["m is a numeric without a precision, text in the lake"]),
    (
        "SELECT id, avg(v) AS v FROM (SELECT x AS id, m * 2 AS v FROM a UNION ALL SELECT x, d FROM a_history_2)"
        " GROUP BY id",
        ["m is a numeric without", "d is followed as double"],
    ),
    ("SELECT x AS id, sum(if(m > 1, f, CAST(m AS DOUBLE))) AS v FROM a GROUP BY x", []),
]


@pytest.mark.parametrize(("sql", "causes"), OF_NUMERICS)
def test_a_sum_of_numerics_says_what_they_are_in_the_lake(sql: str, causes: list[str]) -> None:
    with pytest.raises(ConfigurationError) as error:
        compile_view(ViewDefinition.of("shop.v", sql, ["id"]), {**TABLES, LATER.name: LATER})
    assert [cause for cause in causes if cause not in error.value.what] == []
    columns = [cause[0] for cause in causes]
    choices = [f'source.column_types: {{public.a: {{{column}: "decimal(38,9)"}}}}' for column in columns]
    follow = ", ".join(f"follow it as a decimal: {choice}" for choice in choices)
    assert error.value.what.endswith(follow or "add decimals, CAST(… AS DECIMAL(38, 9))")


ACCEPTED = [
    "SELECT id FROM at WHERE t = 'today' OR t IN ('now', 'later') OR t LIKE 'now' OR upper(t) > 'tomorrow'",
    "SELECT id, CASE t WHEN 'now' THEN 'today' ELSE t END AS v, 'today' AS w, if(id > 1, 'now', 'later') AS x FROM at",
    "SELECT s.id FROM (SELECT id, t AS v FROM at) s WHERE s.v <> 'yesterday'",
    "SELECT id FROM at WHERE d > '2026-01-01' AND at < TIMESTAMP'2026-01-01' AND CAST(d AS STRING) <> 'today'",
    f"SELECT a.id, listagg(DISTINCT b.y, ',') WITHIN GROUP (ORDER BY b.y) AS v {JOINED} GROUP BY a.id",
    "SELECT id, row_number() OVER (PARTITION BY x ORDER BY t, id) AS v FROM a",
    "SELECT id, row_number() OVER w AS v FROM a WINDOW w AS (PARTITION BY x ORDER BY id)",
    f"SELECT b.id, row_number() OVER (PARTITION BY a.x ORDER BY b.id) AS v {JOINED.replace('LEFT ', '')}",
    "SELECT id, t, row_number() OVER (PARTITION BY b.y ORDER BY b.id) AS v FROM b LEFT JOIN a USING (id)",
    "SELECT x AS id, rank() OVER (ORDER BY x) AS v FROM a GROUP BY x",
    "SELECT x AS id, row_number() OVER (ORDER BY x) AS v FROM a GROUP BY x",
    "SELECT id, n FROM (SELECT x AS id, count(*) AS n FROM a GROUP BY x) ORDER BY n, id LIMIT 3",
    "SELECT x AS id FROM a ORDER BY x LIMIT 3",
    "SELECT id, x FROM a UNION ALL SELECT a_id, y FROM b ORDER BY x, id LIMIT 3",
    "SELECT x AS id, max_by(t, struct(f, id)) AS v FROM a GROUP BY x",
    "SELECT x AS id, max_by(x, f) AS v, min_by(t, t) AS w FROM a GROUP BY x",
    "SELECT id, max_by(t, struct(f, _sequence)) AS v, min_by(x, _sequence) AS w FROM a_history GROUP BY id",
    "SELECT x AS id, sum(CAST(f AS DECIMAL(38, 9))) AS v, avg(CAST(m AS DECIMAL(20, 2))) AS w FROM a GROUP BY x",
    "SELECT x AS id, sum(id) AS v, avg(x) AS w, sum(length(t)) AS l, sum(if(t = 'a', 1, 0)) AS i FROM a GROUP BY x",
    "SELECT id, sum(f) OVER (PARTITION BY x ORDER BY id) AS v FROM a",
    "SELECT x AS id, collect_list(t) FILTER (WHERE f > 1) AS v FROM a GROUP BY x",
    "SELECT id, transform(array(x), each -> each + 1) AS v FROM a",
    "SELECT id, '$' || '{env:HOME}' AS v FROM a",
]


@pytest.mark.parametrize("sql", ACCEPTED)
def test_what_is_certain_is_not_refused(sql: str) -> None:
    assert compiled(sql)


WHOLE = {
    "a function that nobody knows": "SELECT id, my_own(x) AS v FROM a",
    "unpivot": "SELECT id, k, v FROM b UNPIVOT (v FOR k IN (a_id, y))",
    "pivot": "SELECT id, `1` FROM b PIVOT (count(a_id) FOR y IN (1, 2))",
    "a subquery for each row": "SELECT a.id, l.y FROM a, LATERAL (SELECT max(y) AS y FROM b WHERE b.a_id = a.id) l",
    "a union by names": "SELECT id, x FROM a UNION BY NAME SELECT y AS x, id FROM b",
    "a star of joined columns": "SELECT id, struct(*) AS v FROM a JOIN c USING (id)",
}


@pytest.mark.parametrize("sql", WHOLE.values(), ids=WHOLE)
def test_what_is_not_followed_makes_a_view_whole(sql: str) -> None:
    """Whatever column changes: nobody knows which are read."""
    view = compiled(sql)
    assert view.plan.whole.keys() == view.plan.uses.keys()
    assert not view.plan.routes
    assert all((*columns,) == TABLES[name].column_names for name, columns in view.plan.columns.items())
    assert all("is not followed" in use.way or "not certain" in use.way for use in explain(view).uses)


@pytest.mark.parametrize(
    ("sql", "whole"),
    [
        ("SELECT id, y AS v FROM b UNION SELECT id, x FROM a ORDER BY v, id LIMIT 3", {"a", "b"}),
        ("SELECT id, y AS v FROM b UNION ALL SELECT id, x FROM a ORDER BY v, id LIMIT 3", {"a", "b"}),
        ("SELECT id FROM b EXCEPT SELECT id FROM a ORDER BY id OFFSET 3", {"a", "b"}),
        ("SELECT * FROM (SELECT id FROM b UNION SELECT id FROM a ORDER BY id LIMIT 3)", {"a", "b"}),
        (
            "SELECT id FROM b WHERE a_id IN (SELECT id FROM a UNION SELECT z FROM c ORDER BY id LIMIT 3)",
            {"a", "b", "c"},
        ),
        ("SELECT id FROM b WHERE a_id IN ((SELECT id FROM a ORDER BY id LIMIT 6 OFFSET 2))", {"a", "b"}),
        ("SELECT * FROM ((SELECT id, x FROM a) ORDER BY x, id LIMIT 3)", {"a"}),
        ("SELECT s.id FROM ((SELECT id, x FROM a) ORDER BY x, id LIMIT 3) s JOIN b ON b.a_id = s.id", {"a", "b"}),
    ],
)
def test_a_limit_is_seen_wherever_it_stands(sql: str, whole: set[str]) -> None:
    assert {alias.partition("#")[0] for alias in compiled(sql).plan.whole} == whole


@pytest.mark.parametrize(
    "value",
    [
        "nvl2(b.y, b.y, 0)",
        "if(b.y IS NULL, 0, b.y)",
        "CASE WHEN b.y > 0 THEN b.y ELSE 0 END",
        "greatest(b.y, 0)",
        "coalesce(b.y, 0) * 1",
        "concat_ws('', b.y)",
        "length(concat_ws('-', CAST(b.y AS STRING)))",
    ],
)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.id, c.z FROM a LEFT JOIN b ON b.id = a.x JOIN c ON c.z = {}",
        "SELECT a.id, c.z FROM a LEFT JOIN b ON b.id = a.x LEFT JOIN c ON c.z = {}",
        "SELECT a.id, c.z FROM a LEFT JOIN b ON b.id = a.x, c WHERE c.z = {}",
        "SELECT a.id, (SELECT max(c.id) FROM c WHERE c.z = {}) AS v FROM a LEFT JOIN b ON b.id = a.x",
        "SELECT a.id FROM a LEFT JOIN b ON b.id = a.x WHERE {} IN (SELECT z FROM c)",
        "SELECT a.id, c.z FROM (SELECT a.id, {} AS k FROM a LEFT JOIN b ON b.id = a.x) a JOIN c ON c.z = a.k",
        "SELECT b.id, c.z FROM b RIGHT JOIN a ON b.id = a.x JOIN c ON c.z = {}",
    ],
)
def test_a_value_that_is_there_without_its_row_leads_nowhere(sql: str, value: str) -> None:
    assert any(alias.startswith("c") for alias in compiled(sql.format(value)).plan.whole)


@pytest.mark.parametrize("value", ["b.y + 1", "upper(CAST(b.y AS STRING))", "b.y"])
def test_a_value_that_is_null_without_its_row_leads_to_its_keys(value: str) -> None:
    sql = f"SELECT a.id, c.z FROM a LEFT JOIN b ON b.id = a.x JOIN c ON CAST(c.z AS STRING) = CAST({value} AS STRING)"
    assert not compiled(sql).plan.whole


def test_a_star_in_a_function_reads_all_columns() -> None:
    view = compiled("SELECT a.id, collect_list(struct(b.*)) AS v FROM a LEFT JOIN b ON b.a_id = a.id GROUP BY a.id")
    assert (*view.plan.columns[B.name],) == B.column_names
    assert not view.plan.whole
    assert explain(view).engine == "DuckDB"
    read = compiled("SELECT id, hash(*) AS v FROM a").plan.columns[A.name]
    assert (*read,) == A.column_names


CRASHES = {
    "the last in an order": "SELECT id, x, last(t) OVER (PARTITION BY id ORDER BY id) AS v FROM a",
    "an expression of an expression": "SELECT id, upper(u) AS v FROM (SELECT id, trim(t) AS u FROM a)",
    "a group by one": "SELECT k + 1 AS id, count(*) AS n FROM (SELECT x + 1 AS k FROM a) GROUP BY k + 1",
    "an equality of one": "SELECT s.id FROM (SELECT id, x + 1 AS d FROM a) s JOIN b ON s.d + 1 = b.a_id",
    "no argument": "SELECT id, weekday() AS v FROM a",
    "one argument": "SELECT id, pmod(x) AS v FROM a",
    "no list": "SELECT id, cardinality() AS v FROM a",
    "no value": "SELECT id, isnull() AS v FROM a",
    "no count": "SELECT x AS id, count() AS v FROM a GROUP BY x",
    "many alternatives": "SELECT id FROM a WHERE " + " OR ".join(f"x = {number}" for number in range(400)),
    "many conditions": "SELECT id FROM a WHERE " + " AND ".join(f"x <> {number}" for number in range(400)),
    "a long sum": f"SELECT id, {' + '.join(['x'] * 300)} AS v FROM a",
}


@pytest.mark.parametrize("sql", CRASHES.values(), ids=CRASHES)
def test_ordinary_statements_are_compiled(sql: str) -> None:
    assert not compiled(sql).plan.whole


@pytest.mark.parametrize(
    ("sql", "key", "told"),
    [
        ("SELECT id FROM a UNION SELECT id FROM b", ["ids"], "its result has no column ids, which is in its key"),
        ("SELECT id FROM a", ["id", "ID"], "its key has id twice"),
        ("SELECT id, x AS v, t AS V FROM a", ["id"], "its result has two columns v"),
        ("SELECT a.*, c.id FROM a JOIN c ON c.a_id = a.id", ["id"], "its result has two columns id"),
        ("SELECT id FROM (VALUES (1), (2)) AS v (id)", ["id"], "it reads no table"),
        ("SELECT id FROM a UNION SELECT id, x FROM a", ["id"], "a branch of UNION has 1 columns, the other 2"),
        (f"SELECT id FROM a WHERE {'(' * 99}x = 1{')' * 99}", ["id"], "it is nested too deep to be read"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(sql: str, key: list[str], told: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        compiled(sql, *key)
    assert error.value.what == f"views.shop.v: {told}"


def test_tables_that_differ_by_case_are_not_mistaken_for_each_other() -> None:
    other = replace(A, name=TableName("public", "A"), columns=A.columns[:2])
    tables = {other.name: other, **TABLES}

    def read(sql: str) -> CompiledView:
        return compile_view(ViewDefinition.of("shop.v", sql, ["id"]), tables)

    found = read("SELECT id, x FROM `A`")
    assert found.tables == {other.name}
    assert isinstance(found.duckdb, DuckStatement)
    rows = pa.table({"id": pa.array([1], pa.int32()), "x": pa.array([2], pa.int32())})
    assert Evaluator().evaluate(found.duckdb.sql, {found.names[other.name]: rows}).num_rows == 1
    assert read("SELECT id, t FROM A").tables == {A.name}
    with pytest.raises(ConfigurationError, match=r"it reads public\.A and public\.a, which Spark does not tell apart"):
        read("SELECT a.id FROM `A` b JOIN a USING (id)")


def test_joins_without_a_condition_are_not_tried_without_end() -> None:
    with pytest.raises(ConfigurationError, match="10 JOINs wait for their ON at line 1, column"):
        compiled("SELECT a.id FROM a" + " JOIN a" * 200)
    crossed = "SELECT a.id FROM a" + "".join(f" CROSS JOIN b b{number}" for number in range(30))
    assert compiled(crossed).tables == {A.name, TableName("public", "b")}
    joined = "SELECT a.id FROM a" + "".join(f" JOIN b b{number} ON b{number}.a_id = a.id" for number in range(30))
    assert compiled(joined).tables == {A.name, TableName("public", "b")}


def test_common_table_expressions_are_not_written_out_without_end() -> None:
    names = [f"c{number}" for number in range(40)]
    twice = (f"{b} AS (SELECT l.id FROM {a} l JOIN {a} r ON l.id = r.id)" for a, b in pairwise(names))
    sql = f"WITH c0 AS (SELECT id FROM a), {', '.join(twice)} SELECT id FROM {names[-1]}"
    with pytest.raises(ConfigurationError, match="its common table expressions name each other too often"):
        compiled(sql)


@pytest.mark.parametrize("hint", ["BROADCAST(b)", "MERGE(l, b)", "BROADCAST(l)", "COALESCE(1)"])
def test_a_hint_changes_nothing(hint: str) -> None:
    """What it names is an alias, or no table at all."""
    plain = "SELECT l.id, b.y FROM a l JOIN b ON b.a_id = l.id"
    found = compiled(plain.replace("SELECT", f"SELECT /*+ {hint} */", 1))
    assert found.plan == compiled(plain).plan
    assert [place.table.table for place in found.statement.references] == ["a", "b"]


def test_columns_of_a_pivot_are_no_table_s() -> None:
    view = compiled("SELECT a_id AS id, `1` AS v FROM b PIVOT (count(id) FOR y IN (1, 2))")
    assert not view.sources()


def test_an_aggregate_without_a_class_is_no_column_of_a_row() -> None:
    """`mean(y)` of all rows is not that of the few that are looked at."""
    assert compiled("SELECT a.id, s.n FROM a JOIN (SELECT mean(y) AS n FROM b) s ON s.n = a.x").plan.whole


def test_outputs_without_a_name_are_known_by_their_place() -> None:
    """Spark calls them as it likes: a view with one is not filled anew at each cut, and its lists are sorted."""
    view = compiled("SELECT x AS id, t, count(*), collect_list(f) FROM a GROUP BY x, t")
    columns = [Column("id", Kind.INTEGER), Column("T", Kind.TEXT), Column("count(1)", Kind.BIGINT)]
    stored = Table(TableName("shop", "v"), (*columns, Column("collect_list(f)", Kind.DOUBLE, array=True)), ("id",))
    assert view.has_columns_of(stored)
    assert view.shape(stored).unordered == {"collect_list(f)": frozenset([()])}
    assert not view.has_columns_of(replace(stored, columns=stored.columns[:3]))
    assert not view.has_columns_of(replace(stored, columns=(columns[1], columns[0], *stored.columns[2:])))
