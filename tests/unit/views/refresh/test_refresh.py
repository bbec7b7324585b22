"""A view that is kept up equals its statement over the whole tables, whatever changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa
import pytest

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake.table.lookup import ROW, ComputedColumn
from cdc.sinks.lake.table.row_changes import RowChanges
from cdc.views.refresh.derived import DerivedTables
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.refresh.needed import find_needed_rows
from cdc.views.refresh.rows import matching
from cdc.views.refresh.touched import find_touched_keys
from cdc.views.statement.dialect.statements import DuckStatement, compute_in_duckdb, write_statement
from cdc.views.statement.parsing import parse_statement
from cdc.views.statement.planning import plan_view
from tests.support.examples import scaled

Record = dict[str, object]


def table(name: str, **columns: Kind) -> Table:
    return Table(TableName("public", name), tuple(Column(c, kind) for c, kind in columns.items()), ("id",))


A = table("a", id=Kind.INTEGER, x=Kind.INTEGER, t=Kind.TEXT)
B = table("b", id=Kind.BIGINT, a_id=Kind.INTEGER, y=Kind.INTEGER)
C = table("c", id=Kind.INTEGER, b_id=Kind.BIGINT, a_id=Kind.INTEGER, z=Kind.INTEGER)
TABLES = {each.name: each for each in (A, B, C)}
CASES = {
    "filter": ("SELECT id, t FROM a WHERE x > 1", ["id"]),
    "inner join": ("SELECT b.id, a.t, b.y FROM a JOIN b ON a.id = b.a_id", ["id"]),
    "left join, grouped": (
        "SELECT a.id, a.t, count(b.id) AS n, sum(b.y) AS s FROM a LEFT JOIN b ON b.a_id = a.id GROUP BY a.id, a.t",
        ["id"],
    ),
    "three tables": (
        "SELECT c.id, a.t, b.y FROM c JOIN b ON c.b_id = b.id JOIN a ON a.id = b.a_id WHERE c.z <> 2",
        ["id"],
    ),
    "three tables, grouped by the first": (
        "SELECT a.id, count(*) AS n, max(c.z) AS z FROM a JOIN b ON a.id = b.a_id JOIN c ON c.b_id = b.id"
        " GROUP BY a.id",
        ["id"],
    ),
    "right join": ("SELECT b.id, a.x, b.y FROM a RIGHT JOIN b ON a.id = b.a_id", ["id"]),
    "full join": (
        "SELECT coalesce(a.id, b.a_id) AS id, max(a.x) AS x, sum(b.y) AS y FROM a FULL JOIN b ON a.id = b.a_id"
        " WHERE coalesce(a.id, b.a_id) IS NOT NULL GROUP BY coalesce(a.id, b.a_id)",
        ["id"],
    ),
    "semi join": ("SELECT id, t FROM a WHERE id IN (SELECT a_id FROM b WHERE y > 1)", ["id"]),
    "anti join": ("SELECT id, t FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.a_id = a.id AND b.y > a.x)", ["id"]),
    "left anti": ("SELECT a.id, a.t FROM a LEFT ANTI JOIN b ON a.id = b.a_id", ["id"]),
    "distinct": (
        "SELECT DISTINCT a.x, b.y FROM a JOIN b ON a.id = b.a_id WHERE a.x IS NOT NULL AND b.y IS NOT NULL",
        ["x", "y"],
    ),
    "union all": (
        "SELECT id, x AS v FROM a WHERE x < 2 UNION ALL SELECT a_id AS id, sum(y) AS v FROM b"
        " WHERE a_id IN (SELECT id FROM a WHERE x >= 2) GROUP BY a_id",
        ["id"],
    ),
    "derived and grouped": (
        "WITH s AS (SELECT a_id, count(*) AS n FROM b GROUP BY a_id HAVING count(*) > 1)"
        " SELECT a.id, s.n, t.n AS m FROM a JOIN s ON s.a_id = a.id LEFT JOIN s AS t ON t.a_id = a.x",
        ["id"],
    ),
    "self join": ("SELECT l.id, r.id AS other FROM b l JOIN b r ON l.a_id = r.a_id AND l.id < r.id", ["id", "other"]),
    "pairs of two tables": (
        "SELECT b.id AS b, c.id AS c FROM b JOIN c ON c.a_id = b.a_id WHERE NOT EXISTS"
        " (SELECT 1 FROM a WHERE a.id = b.a_id AND a.x = c.z)",
        ["b", "c"],
    ),
    "window": (
        "SELECT id, a_id, row_number() OVER (PARTITION BY a_id ORDER BY y, id) AS r FROM b WHERE a_id IS NOT NULL",
        ["id", "a_id"],
    ),
    "correlated": ("SELECT a.id, (SELECT max(b.y) FROM b WHERE b.a_id = a.id) AS top FROM a", ["id"]),
    "two keys in a join": ("SELECT c.id, b.y FROM c JOIN b ON c.b_id = b.id AND c.a_id = b.a_id", ["id"]),
    "union joined": (
        "SELECT u.k, u.id, c.id AS c FROM"
        " (SELECT 1 AS k, id, x AS v FROM a UNION ALL SELECT 2 AS k, id, y AS v FROM b) u JOIN c ON c.z = u.v",
        ["k", "id", "c"],
    ),
    "full joins of three": (
        "SELECT coalesce(a.id, b.id, c.id) AS id, a.x, b.y, c.z FROM a FULL JOIN (SELECT a_id AS id, max(y) AS y FROM b"
        " WHERE a_id IS NOT NULL GROUP BY a_id) b ON a.id = b.id FULL JOIN (SELECT a_id AS id, max(z) AS z FROM c"
        " WHERE a_id IS NOT NULL GROUP BY a_id) c ON c.id = coalesce(a.id, b.id)",
        ["id"],
    ),
    "grouped by what may be null": (
        "SELECT b.y, count(*) AS n, sum(a.x) AS x FROM b LEFT JOIN a ON a.id = b.a_id GROUP BY b.y",
        ["y"],
    ),
    "equal in an outer join's condition": (
        "SELECT c.id, b.id AS b, a.id AS a FROM c JOIN b ON c.b_id = b.id LEFT JOIN a ON b.a_id = c.a_id"
        " AND a.id = c.a_id",
        ["id"],
    ),
    "except": ("SELECT id FROM a EXCEPT SELECT a_id AS id FROM b WHERE y > 1 AND a_id IS NOT NULL", ["id"]),
    "grouped by an expression": ("SELECT y % 3 AS k, count(*) AS n, sum(a_id) AS s FROM b GROUP BY y % 3", ["k"]),
    "joined by an expression": (
        "SELECT a.id, count(b.id) AS n FROM a LEFT JOIN b ON b.a_id + 1 = a.id * 1 GROUP BY a.id",
        ["id"],
    ),
    "an expression over a subquery": (
        "SELECT k, sum(y) AS s, max(t) AS t FROM (SELECT coalesce(b.y, 0) + b.a_id AS k, b.y, a.t"
        " FROM b LEFT JOIN a ON a.id = b.a_id) GROUP BY k",
        ["k"],
    ),
    "expressions of both branches": (
        "SELECT concat(t, 'x') AS k, 1 AS n FROM a GROUP BY concat(t, 'x')"
        " UNION ALL SELECT CAST(y AS STRING) AS k, count(*) + 5 AS n FROM b GROUP BY CAST(y AS STRING)",
        ["k", "n"],
    ),
    "using, after a right join": (
        "SELECT id, c.a_id, a.x, d.z FROM a RIGHT JOIN c USING (id) LEFT JOIN c d USING (id)",
        ["id"],
    ),
    "using, after full joins": (
        "SELECT id, a.x, c.z, d.a_id FROM a FULL JOIN c USING (id) FULL JOIN c d USING (id)",
        ["id"],
    ),
    "a common table expression in another": (
        "WITH s AS (WITH q AS (SELECT id, a_id FROM b) SELECT l.id, r.id AS other FROM q l JOIN q r"
        " ON l.a_id = r.a_id) SELECT id, other FROM s",
        ["id", "other"],
    ),
    "a name of two common table expressions": (
        "WITH q AS (SELECT id, x AS n FROM a), s AS (WITH q AS (SELECT id, a_id AS n FROM b WHERE a_id IS NOT NULL)"
        " SELECT n, count(*) AS m FROM q GROUP BY n) SELECT q.id, s.m FROM q LEFT JOIN s ON s.n = q.id",
        ["id"],
    ),
    "other names of columns": (
        "WITH q AS (SELECT id, x FROM a) SELECT t.x, u.y, t.id FROM q AS t(x, id) JOIN c AS u(id, b_id, a_id, y)"
        " ON u.a_id = t.x",
        ["x", "y", "id"],
    ),
    "nested": (
        "SELECT a.id, collect_list(struct(b.id, b.y)) AS list FROM a LEFT JOIN b ON b.a_id = a.id GROUP BY a.id",
        ["id"],
    ),
}


@dataclass
class MemoryTable:
    """A `RowFinder` over rows in memory."""

    table: Table
    rows: dict[object, Record] = field(default_factory=dict)
    computed: dict[str, ComputedColumn] = field(default_factory=dict)

    def arrow(self, rows: Sequence[Record] | None = None) -> pa.Table:
        return pa.Table.from_pylist(list(self.rows.values() if rows is None else rows), arrow_schema(self.table))

    def find(self, columns: Sequence[str], values: Sequence[pa.Array], names: Sequence[str]) -> pa.Table:
        rows = self.arrow().append_column(ROW, pa.array(range(len(self.rows)), pa.int64()))
        for name, each in self.computed.items():
            rows = rows.append_column(name, each.compute(rows))
        return matching(rows, columns, values).select([*names, ROW])


def change(state: MemoryTable, random: Random) -> RowChanges:
    """Change some rows: insert, update, delete, move to another key."""
    before = dict(state.rows)
    for _ in range(random.randint(1, 4)):
        key = random.randrange(6)
        if random.random() < 0.3:
            state.rows.pop(key, None)
        else:
            state.rows[key] = random_row(state.table, key, random)
    if random.random() < 0.05:
        state.rows.clear()
    keys = sorted(
        (key for key in before.keys() | state.rows.keys() if before.get(key) != state.rows.get(key)), key=repr
    )
    old, new = [before[k] for k in keys if k in before], [state.rows[k] for k in keys if k in state.rows]
    return RowChanges(state.arrow(old), state.arrow(new))


def random_row(of: Table, key: int, random: Random) -> Record:
    values = {c.name: None if random.random() < 0.15 else random.randrange(5) for c in of.columns}
    texts = {c.name: random.choice(["x", "y", None]) for c in of.columns if c.kind is Kind.TEXT}
    return {**values, **texts, "id": key}


@pytest.mark.parametrize(("sql", "key"), CASES.values(), ids=CASES)
def test_a_view_equals_its_statement(sql: str, key: list[str]) -> None:
    statement = parse_statement("v", sql, TABLES)
    plan, evaluator = plan_view(statement, key, compute_in_duckdb), Evaluator()
    assert not plan.whole
    written = write_statement(statement, {name: name.table for name in TABLES})
    assert isinstance(written, DuckStatement), written
    query, derived = written.sql, DerivedTables.of(plan.derived)
    for seed in range(scaled(10)):
        random, state = Random(seed), {name: MemoryTable(each) for name, each in TABLES.items()}
        view = whole(evaluator, query, state)
        for _ in range(10):
            changed = [name for name in TABLES if random.random() < 0.5]
            changes = {name: change(state[name], random) for name in changed}
            tables = derived.attach(state, changes)
            touched = find_touched_keys(plan, tables)
            needed = find_needed_rows(plan, touched, tables)
            there = {name: needed.get(name, state[name].arrow([])) for name in TABLES}
            some = evaluator.evaluate(query, {name.table: rows for name, rows in there.items()})
            new, old = (
                pa.concat_tables([side.slice(0, 0), *(matching(side, keys.key, keys.values) for keys in touched)])
                for side in (some, view)
            )
            view = kept_up(view, old, new, key)
            assert contents(view, key) == contents(whole(evaluator, query, state), key), (seed, changes, touched)


WHOLE = {
    "the key of an outer join's other side": (
        "SELECT a.x, count(*) AS n FROM b LEFT JOIN a ON a.id = b.a_id GROUP BY a.x",
        ["x"],
    ),
    "an equality that an outer join does not ask of all rows": (
        "SELECT a.id, count(b.id) AS n, count(c.id) AS m FROM a CROSS JOIN b"
        " LEFT JOIN c ON c.b_id = b.id AND c.a_id = a.id GROUP BY a.id",
        ["id"],
    ),
    "not in": ("SELECT id FROM a WHERE id NOT IN (SELECT a_id FROM b)", ["id"]),
    "a comparison": ("SELECT a.id, count(*) AS n FROM a JOIN b ON a.x < b.y GROUP BY a.id", ["id"]),
    "a part of a window, chosen": ("SELECT id, x FROM a QUALIFY row_number() OVER (ORDER BY x, id) < 3", ["id"]),
    "groups of groups": ("SELECT a_id, count(*) AS n FROM b GROUP BY a_id WITH ROLLUP", ["a_id"]),
    "sets of groups": ("SELECT a_id, y, count(*) AS n FROM b GROUP BY a_id, y GROUPING SETS ((a_id), (y))", ["a_id"]),
    "a comma before an outer join": (
        "SELECT c.id, a.id AS a FROM a, b RIGHT JOIN c ON b.id = c.b_id WHERE c.a_id = a.id",
        ["id"],
    ),
    "a group of joins": (
        "WITH q AS (SELECT id, x FROM a) SELECT c.id, q.x, b.y FROM c LEFT JOIN (q JOIN b ON b.a_id = q.id)"
        " ON c.b_id = b.id",
        ["id"],
    ),
    "a key of several types": ("SELECT id AS k FROM a UNION SELECT t AS k FROM a", ["k"]),
    "a limit": ("SELECT b.id FROM (SELECT * FROM a ORDER BY x LIMIT 2) t JOIN b ON b.a_id = t.id", ["id"]),
    "the first of two values": (
        "SELECT coalesce(a.x, b.y) AS x, count(*) AS n FROM a JOIN b ON a.id = b.a_id GROUP BY coalesce(a.x, b.y)",
        ["x"],
    ),
    "equal to the first of two values": (
        "SELECT b.id, count(c.id) AS n FROM b LEFT JOIN a ON a.id = b.a_id LEFT JOIN c ON c.z = coalesce(a.x, b.y)"
        " GROUP BY b.id",
        ["id"],
    ),
    "an aggregate of everything": ("SELECT a.id, (SELECT max(y) FROM b) AS top FROM a", ["id"]),
}


@pytest.mark.parametrize(("sql", "key"), WHOLE.values(), ids=WHOLE)
def test_some_changes_touch_every_row(sql: str, key: list[str]) -> None:
    assert plan_view(parse_statement("v", sql, TABLES), key, compute_in_duckdb).whole


def whole(evaluator: Evaluator, query: str, state: Mapping[TableName, MemoryTable]) -> pa.Table:
    return evaluator.evaluate(query, {name.table: each.arrow() for name, each in state.items()})


def kept_up(view: pa.Table, old: pa.Table, new: pa.Table, key: Sequence[str]) -> pa.Table:
    """The view with its touched rows, `old`, replaced by new ones."""
    kept = {where: row for where, row in contents(view, key).items() if where not in contents(old, key)}
    return pa.Table.from_pylist(list((kept | contents(new, key)).values()), view.schema)


def contents(rows: pa.Table, key: Sequence[str]) -> dict[tuple[object, ...], Record]:
    return {tuple(record[name] for name in key): canonical(record) for record in rows.to_pylist()}


def canonical(record: Record) -> Record:
    return {name: sorted(value, key=repr) if isinstance(value, list) else value for name, value in record.items()}
