"""A column that is text in the lake is told where a view takes it for what it is in Postgres, and nowhere else."""

from collections.abc import Mapping

import pytest
from ruamel.yaml import YAML

from cdc.connect.source.column_types import KINDS, PgType, to_column
from cdc.connect.table_choices import ChosenType
from cdc.core.table import MONEY, Column, Kind, Table, TableName
from cdc.sinks.lake.history.shape import history_table
from cdc.views.definition import ViewDefinition
from cdc.views.text_columns.meanings import find_meaning
from cdc.views.text_columns.notices import TextNotice, explain_stop, find_notices

T, OTHER = TableName("public", "t"), TableName("sales", "Odd: Table")
TABLE = Table(
    T,
    (
        Column("id", Kind.INTEGER),
        Column("m", Kind.NUMERIC),
        Column("list", Kind.NUMERIC, array=True),
        Column("g", Kind.TEXT),
        Column("c", Kind.TEXT, compared_as="bpchar"),
        Column("ci", Kind.TEXT, compared_as="citext"),
        Column("e", Kind.ENUM),
        Column("u", Kind.UUID),
        Column("at", Kind.TIME),
        Column("ip", Kind.LITERAL, type="inet"),
        Column("net", Kind.LITERAL, type="cidr"),
        Column("mac", Kind.LITERAL, type="macaddr"),
        Column("j", Kind.JSON),
        Column("span", Kind.INTERVAL),
        Column("bits", Kind.LITERAL, type="bit"),
        Column("letter", Kind.LITERAL, type="char"),
        Column("r", Kind.LITERAL, type="numrange"),
        Column("day", Kind.LITERAL, type="date", chosen="text"),
        Column("mt", Kind.NUMERIC, chosen="text"),
        Column("d", Kind.DECIMAL, 12, 2, chosen="decimal(12,2)"),
        Column("cash", Kind.DECIMAL, 19, 2, type=MONEY),
        Column("f", Kind.DOUBLE),
    ),
    ("id",),
)


def notices(*statements: str, tables: Mapping[TableName, Table] | None = None) -> list[TextNotice]:
    views = [ViewDefinition.of(f"shop.v{number}", sql, ["id"]) for number, sql in enumerate(statements)]
    return find_notices(views, tables or {T: TABLE})


def told(*statements: str) -> list[str]:
    """By column, the words of SQL that are told, of the last view."""
    last = TableName("shop", f"v{len(statements) - 1}")
    return [f"{n.column.name}: {' '.join(n.words)}" for n in notices(*statements) if n.view == last]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id, max(m) AS a, sum(m) AS s FROM t WHERE m > 100 GROUP BY id", ["m: max sum >"]),
        (
            "SELECT id, avg(m), stddev(m), median(m), percentile(m, 0.5) FROM t GROUP BY id",
            ["m: avg stddev median quantile"],
        ),
        ("SELECT id FROM t WHERE c = 'ab' OR ci IN ('x', 'y') OR ci LIKE 'a%'", ["c: =", "ci: IN like"]),
        ("SELECT min(e) AS id FROM t GROUP BY ci", ["ci: GROUP BY", "e: min"]),
        (
            "SELECT id, row_number() OVER (PARTITION BY ci ORDER BY e, ip) FROM t",
            ["ci: PARTITION BY", "e: ORDER BY", "ip: ORDER BY"],
        ),
        ("SELECT id FROM t WHERE u = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", ["u: ="]),
        ("SELECT id FROM t WHERE at BETWEEN '12:00' AND '13:00:00.000000'", ["at: BETWEEN"]),
        (
            "SELECT id FROM t WHERE ip = '10.0.0.1/32' AND net = '10.0.0.0' AND mac = '08:00:2B:01:02:03'",
            ["ip: =", "mac: =", "net: ="],
        ),
        (
            "SELECT id FROM t WHERE j = '{}' AND span > 'P1D' AND r = '[1,2)' AND day < current_date()",
            ["day: <", "j: =", "r: =", "span: >"],
        ),
        (
            "SELECT id, span + span, bits + 1, mt / 2, -m, m % 2, abs(m), round(m, 2), bround(m) FROM t",
            ["bits: +", "m: - % abs round bround", "mt: /", "span: +"],
        ),
        ("SELECT id, x FROM t LATERAL VIEW explode(list) e AS x WHERE x > 3", ["list: >"]),
        (
            "SELECT id, sort_array(list), array_max(list), array_contains(list, 1) FROM t",
            ["list: sort_array array_max array_contains"],
        ),
        ("SELECT a.id FROM t a JOIN t b ON a.m = b.m", ["m: ="]),
        ("SELECT a.id FROM t a LEFT JOIN t b USING (id, ci)", ["ci: ="]),
        ("WITH q AS (SELECT id, m AS k FROM t) SELECT id, k FROM q ORDER BY k LIMIT 1", ["m: ORDER BY"]),
        ("SELECT id, m FROM t UNION SELECT id, mt FROM t", ["m: UNION", "mt: UNION"]),
        ("SELECT id, m FROM t EXCEPT SELECT id, mt FROM t", ["m: EXCEPT", "mt: EXCEPT"]),
        ("SELECT DISTINCT ci AS id FROM t", ["ci: DISTINCT"]),
        ("SELECT ci AS id, max(g) AS g FROM t GROUP BY ALL", ["ci: GROUP BY"]),
        ("SELECT ci AS id, e, count(*) AS n FROM t GROUP BY ROLLUP (ci, e)", ["ci: GROUP BY"]),
        ("SELECT count(DISTINCT m) AS id FROM t", ["m: DISTINCT"]),
        ("SELECT id FROM t WHERE m IN (SELECT mt FROM t)", ["m: IN", "mt: IN"]),
        ("SELECT id, coalesce(m, mt) + 1 AS x FROM t", ["m: +", "mt: +"]),
        ("SELECT id, CASE WHEN id = 1 THEN m ELSE mt END / 2 AS x FROM t", ["m: /", "mt: /"]),
        (
            "SELECT id, CASE m WHEN 1 THEN 2 END AS x, nullif(m, 0), decode(ci, 'a', 1) FROM t",
            ["ci: decode", "m: CASE nullif"],
        ),
        ("SELECT id, (SELECT max(b.m) FROM t b WHERE b.id = t.id) * 2 AS x FROM t", ["m: max *"]),
        (
            "SELECT id, max_by(g, m) AS x, greatest(m, mt), collect_set(ci) FROM t GROUP BY id",
            ["ci: collect_set", "m: max_by greatest", "mt: greatest"],
        ),
        ("SELECT id FROM t GROUP BY id HAVING max(m) > 3", ["m: > max"]),
    ],
)
def test_uses_that_mean_otherwise_are_told(sql: str, expected: list[str]) -> None:
    assert sorted(told(sql)) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t",
        "SELECT id, m, list, c, ci, e, u, at, ip, j, span, r, day FROM t WHERE g = 'a' AND f > 1 ORDER BY id LIMIT 3",
        "SELECT id, length(m), m || 'x', upper(ci), count(m), collect_list(m) FROM t GROUP BY id, m || 'x', g",
        "SELECT id, CAST(m AS decimal(38, 9)) + 1 AS x FROM t WHERE CAST(m AS decimal(38, 9)) > 3",
        "SELECT id, sum(d), max(cash), sum(f) FROM t WHERE d = 1 AND cash > 2 GROUP BY id, d",
        "SELECT id FROM t WHERE e = 'sad' AND rtrim(c) = 'ab' AND lower(ci) = 'x' AND letter = 'a' AND m IS NULL",
        "SELECT id FROM t WHERE u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' AND at > '12:00:00.000000'",
        "SELECT id FROM t WHERE ip = '10.0.0.1/8' AND net = '10.0.0.0/8' AND mac = '08:00:2b:01:02:03' GROUP BY 1",
        "SELECT id, m FROM t UNION ALL SELECT id, mt FROM t",
        "SELECT id, p, x FROM t LATERAL VIEW posexplode(list) e AS p, x WHERE p > 3",
        "SELECT id, if(id = 1, m, mt) AS x, struct(m, c) AS s, to_json(struct(m)) AS text FROM t",
    ],
)
def test_what_is_the_same_as_text_is_not_told(sql: str) -> None:
    assert told(sql) == []


def test_columns_are_followed_through_views_and_histories() -> None:
    assert told("SELECT id, m AS amount, list FROM t", "SELECT id FROM shop.v0 WHERE amount > 1") == ["m: >"]
    history = history_table(TABLE)
    (notice,) = notices("SELECT id FROM t_history WHERE m > 1", tables={T: TABLE, history.name: history})
    assert str(notice.table.name) == "public.t_history"
    assert notice.remedy.endswith('source.column_types: {public.t: {m: "decimal(38,9)"}}')


def test_remedy_is_what_the_file_takes() -> None:
    table = Table(OTHER, (Column("id", Kind.INTEGER), Column('a "b"', Kind.NUMERIC)), ("id",))
    (notice,) = notices('SELECT id FROM sales.`Odd: Table` WHERE `a "b"` > 1', tables={OTHER: table})
    of = YAML(typ="safe").load(notice.remedy.partition(": ")[2].partition(": ")[2])
    assert {
        name: {column: str(ChosenType.parse(text)) for column, text in each.items()} for name, each in of.items()
    } == {"sales.Odd: Table": {'a "b"': "decimal(38,9)"}}


def test_view_that_cannot_be_read_has_no_notices() -> None:
    assert notices("SELECT id, nothing FROM t", "SELECT x FROM elsewhere") == []


def test_stop_by_spark_says_which_column_may_be_the_cause() -> None:
    view, spark = (
        ViewDefinition.of("shop.v", "SELECT id FROM t WHERE m > 100", ["id"]),
        "[CAST_INVALID_INPUT] The value",
    )
    assert explain_stop("its key is not unique", view.name, [view], {T: TABLE}) == "its key is not unique"
    explained = explain_stop(spark, view.name, [view], {T: TABLE})
    assert explained.startswith(
        f"{spark} (public.t.m is a numeric without a precision, text in the lake: > takes it as"
    )
    assert "as text; follow it as a decimal: source.column_types: {" in explained


def test_every_type_that_is_text_in_the_lake_is_decided() -> None:
    plain = {"text", "varchar", "name", "xml"}
    types = {
        n: PgType(n, name, "pg_catalog", False, -1, 0, 0) for n, name in enumerate([*KINDS, "numeric", "tsvector"])
    }
    columns = {of.name: to_column("c", oid, -1, types) for oid, of in types.items()}
    own = {
        Kind.TEXT,
        Kind.ENUM,
        Kind.UUID,
        Kind.JSON,
        Kind.TIME,
        Kind.INTERVAL,
        Kind.GEOMETRIC,
        Kind.LITERAL,
        Kind.NUMERIC,
    }
    assert {name for name, column in columns.items() if column.kind in own and not find_meaning(column)} == plain
    assert not any(find_meaning(column) for column in columns.values() if column.kind not in own)
