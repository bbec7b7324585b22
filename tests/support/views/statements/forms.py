"""One form of statement for each finding about views: where an analysis once erred, or may err again.

Each is of random tables, columns and values, and stands alone, in a subquery, or as a common table expression.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from tests.support.views.statements.form_parts import Forms
from tests.support.views.statements.grammar_values import SHAPES


def write_form(name: str, random: Random) -> str:
    """A statement of a form, whose column `k` is its key; now and then in a subquery."""
    forms = Forms(random)
    sql = {**FORMS, **FORBIDDEN}[name](forms)
    if random.random() < 0.75 or " AS OF " in sql or "TRANSFORM" in sql:
        return sql
    return random.choice([f"SELECT s.* FROM ({sql}) s", f"WITH s AS ({sql}) SELECT * FROM s"])


def _star(of: Forms) -> str:
    from_, _, _ = of.joined("LEFT JOIN")
    value = of._pick(
        "struct(t1.*, t2.id AS other)", "to_json(struct(t2.*))", "hash(*)", "xxhash64(t2.*)", "concat_ws(',', t1.*)"
    )
    grouped = of._pick("collect_list(struct(t2.*))", "count(t2.*)", "sort_array(collect_list(struct(t2.*)))")
    return of._pick(
        f"SELECT t1.id AS k, {value} AS v FROM {from_}",
        f"SELECT t1.id AS k, {grouped} AS v FROM {from_} GROUP BY t1.id",
    )


def _lacking(of: Forms) -> str:
    (one, first), (two, second), (three, third) = (of.table(f"t{n}") for n in (1, 2, 3))
    value, theirs = of.number(second, computed=True), of.number(third)
    from_ = f"{one} LEFT JOIN {two} ON {of.number(second)} = {of.number(first)}"
    return of._pick(
        f"SELECT t1.id AS k, t3.id AS w FROM {from_} JOIN {three} ON {theirs} = {value}",
        f"SELECT t1.id AS k FROM {from_} WHERE {value} IN (SELECT {theirs} FROM {three})",
        f"SELECT t1.id AS k, (SELECT max(t3.id) FROM {three} WHERE {theirs} = {value}) AS v FROM {from_}",
    )


def _set(of: Forms, words: tuple[str, ...], *, cut: bool) -> str:
    (one, first), (two, second) = of.table("t1"), of.table("t2")
    sql = f"SELECT t1.id AS k, {of.number(first)} AS v FROM {one} {of._pick(*words)} "
    sql += f"SELECT {of.number(second)}, {of.number(second)} FROM {two}"
    return f"{sql} {of.cut('v, k')}" if cut else sql


def _cut_union(of: Forms) -> str:
    return _set(of, ("UNION", "UNION ALL", "EXCEPT", "INTERSECT"), cut=True)


def _cut_parentheses(of: Forms) -> str:
    (one, first), (two, second) = of.table("t1"), of.table("t2")
    inner = f"(SELECT t1.id, {of.number(first)} AS v FROM {one}) {of.cut('v, id')}"
    keys = f"(SELECT {of.number(first)} AS v FROM {one} {of.cut('v')})"
    return of._pick(
        f"SELECT s.id AS k, s.v FROM ({inner}) s",
        f"SELECT s.id AS k, t2.id AS v FROM ({inner}) s JOIN {two} ON {of.number(second)} = s.v",
        f"SELECT t2.id AS k FROM {two} WHERE {of.number(second)} IN ({keys})",
    )


def _pivot(of: Forms) -> str:
    return of._pick(
        "SELECT a_id AS k, `1` AS v FROM b PIVOT (count(id) FOR y IN (1, 2))",
        "SELECT x AS k, `2` AS v FROM a PIVOT (count(id) FOR t IN ('a' AS `1`, 'B ' AS `2`))",
        "SELECT b_id AS k, `0` AS v FROM c PIVOT (max(z) FOR a_id IN (0, 1))",
        "SELECT s.* FROM (SELECT a_id AS k, y, m FROM b) PIVOT (sum(m) FOR y IN (1)) s",
    )


def _unpivot(of: Forms) -> str:
    names = of._pick("a_id, y", "id, y")
    columns = of._pick("v AS k, id", "id AS k, v") if "a_id" in names else "a_id AS k, v"
    return f"SELECT {columns} FROM b UNPIVOT (v FOR w IN ({names}))"


def _chance(of: Forms) -> str:
    one, first = of.table("t1")
    value = of._pick(
        "rand() < 0.5", "uniform(1, 9)", "randstr(5)", "uuid()", f"shuffle(array(1, 2, 3, {of.number(first)}))"
    )
    return f"SELECT t1.id AS k, {value} AS v FROM {one}"


def _window_ties(of: Forms) -> str:
    one, first = of.table("t1")
    function = of._pick("row_number()", "lag(t1.id)", "first_value(t1.id)", "sum(t1.id)")
    rows = " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW" if function == "sum(t1.id)" else ""
    return (
        f"SELECT t1.id AS k, {function} OVER (PARTITION BY {of.number(first)} ORDER BY {of.number(first)}{rows}) AS v"
        f" FROM {one}"
    )


def _cut_ties(of: Forms) -> str:
    one, first = of.table("t1")
    return f"SELECT t1.id AS k, {of.number(first)} AS v FROM {one} {of.cut(of.number(first))}"


def _extreme_ties(of: Forms) -> str:
    one, first = of.table("t1")
    value = f"{of._pick('max_by', 'min_by')}(t1.id, {of.number(first)})"
    return f"SELECT {of.number(first)} AS k, {value} AS v FROM {one} GROUP BY 1"


def _joined_texts(of: Forms) -> str:
    one, first = of.table("t1")
    value = of._column("s", [first])
    order = of._pick("", f" WITHIN GROUP (ORDER BY {of.number(first)})")
    value = f"{of._pick('listagg', 'string_agg')}({value}, ','){order}"
    return f"SELECT {of.number(first)} AS k, {value} AS v FROM {one} GROUP BY 1"


def _sums(of: Forms, *names: str) -> str:
    value = of._pick("t1.f", "coalesce(t1.f, 0)", "2 * t1.f", "(t1.x / 3)", "if(t1.x > 1, t1.f, 0)")
    group = of._pick("t1.x", "t1.x >= 0", "t1.id >= 0")
    return f"SELECT {group} AS k, {of._pick(*names)}({value}) AS v FROM a t1 GROUP BY {group}"


def _list_order(of: Forms) -> str:
    one, first = of.table("t1")
    (group, value), part = (of.number(first), of.number(first)), of.number(first)
    listed = f"(SELECT {group} AS k, collect_list({value}) AS l FROM {one} GROUP BY {group}, {part}) s"
    return of._pick(
        f"SELECT {group} AS k FROM {one} GROUP BY {group} HAVING collect_list({value})[0] = {of._pick(0, 1, 2)}",
        f"SELECT s.k, s.l FROM {listed} WHERE s.l[0] = 1",
        f"SELECT s.l[0] AS k, count(*) AS n FROM {listed} GROUP BY s.l[0]",
    )


def _list_place(of: Forms) -> str:
    one, first = of.table("t1")
    show = of._pick("{}[0]", "concat_ws(',', {})", "to_json({})", "slice({}, 1, 1)")
    value = show.format(f"collect_list({of.number(first)})")
    return f"SELECT {of.number(first)} AS k, {value} AS v FROM {one} GROUP BY 1"


def _list_sorted_by_hand(of: Forms) -> str:
    one, first = of.table("t1")
    value = f"array_sort(collect_list({of.number(first)}), (l, r) -> 0)"
    return f"SELECT {of.number(first)} AS k, {value} AS v FROM {one} GROUP BY 1"


def _computed(of: Forms) -> str:
    (one, first), (two, second) = of.table("t1"), of.table("t2")
    inner = f"(SELECT t1.id AS i, {of.number(first)} + 1 AS d, trim({of._column('s', [first])}) AS u FROM {one}) s"
    return of._pick(
        f"SELECT s.i AS k, upper(s.u) AS v FROM {inner}",
        f"SELECT s.d + 1 AS k, count(*) AS n FROM {inner} GROUP BY s.d + 1",
        f"SELECT s.i AS k, t2.id AS v FROM {inner} JOIN {two} ON s.d * 2 = {of.number(second)}",
    )


def _side_join(of: Forms) -> str:
    from_, first, _ = of.joined(of._pick("LEFT ANTI JOIN", "LEFT SEMI JOIN"))
    return f"SELECT t1.id AS k, {of.number(first)} AS v FROM {from_}"


def _outer_join(of: Forms) -> str:
    from_, first, second = of.joined(of._pick("LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    return f"SELECT {of.number(of.random.choice([first, second]))} AS k, t1.id AS i, t2.id AS j FROM {from_}"


def _usual_set(of: Forms) -> str:
    return _set(of, ("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"), cut=False)


def _window(of: Forms) -> str:
    one, first = of.table("t1")
    function = of._pick("count(*)", "max(t1.id)", "rank()")
    part = of._pick(f"PARTITION BY {of.number(first)} ORDER BY {of.number(first)}", f"ORDER BY {of.number(first)}")
    return of._pick(
        f"SELECT t1.id AS k, {function} OVER ({part}) AS v FROM {one}",
        f"SELECT t1.id AS k, {function} OVER w AS v FROM {one} WINDOW w AS ({part})",
        f"SELECT t1.id AS k FROM {one} QUALIFY row_number() OVER ({part}, t1.id) = 1",
    )


def _groups(of: Forms) -> str:
    one, first = of.table("t1")
    group, other = of.number(first), of.number(first)
    by = of._pick(f"ROLLUP ({group}, {other})", f"CUBE ({group}, {other})", f"GROUPING SETS (({group}), ({other}), ())")
    return f"SELECT {group} AS k, {other} AS g, count(*) AS n FROM {one} GROUP BY {by}"


def _casts(of: Forms) -> str:
    (one, first), (two, second) = of.table("t1"), of.table("t2")
    mine = of._pick(
        of._column("s", [first]), f"CAST({of._column('s', [first])} AS INT)", f"CAST({of.number(first)} AS DOUBLE)"
    )
    theirs = of._pick(of.number(second), of._column("m", [second]), f"CAST({of.number(second)} AS DECIMAL(5, 1))")
    mine = mine.replace("CAST(", "TRY_CAST(") if "INT" in mine else mine
    return f"SELECT t1.id AS k, t2.id AS v FROM {one} {of._pick('JOIN', 'LEFT JOIN')} {two} ON {mine} = {theirs}"


def _zeros(of: Forms) -> str:
    return of._pick(
        "SELECT id AS k, f AS v FROM a", "SELECT id AS k, f FROM a WHERE x > 0", "SELECT id AS k, -f AS v FROM a"
    )


def _all_rows(of: Forms) -> str:
    (one, first), (two, second) = of.table("t1"), of.table("t2")
    value = of._pick(f"mean({of.number(second)})", f"some({of.number(second)} > 1)", f"count({of.number(second)})")
    join = of._pick(f"s.n = {of.number(first)}", "true")
    return f"SELECT t1.id AS k, s.n AS v FROM {one} JOIN (SELECT {value} AS n FROM {two}) s ON {join}".replace(
        "s.n = ", "CAST(s.n AS INT) = "
    )


def _hint(of: Forms) -> str:
    from_, first, _ = of.joined("JOIN")
    hint = of._pick("BROADCAST(t2)", "MERGE(t1, t2)", "COALESCE(1)", "REPARTITION(3)")
    return f"SELECT /*+ {hint} */ t1.id AS k, {of.number(first)} AS v, t2.id AS w FROM {from_}"


def _letters(of: Forms) -> str:
    name = of._pick(*SHAPES)
    written = of._pick(name.upper(), f"PUBLIC.{name}", f"public.{name.upper()}", f"Public.`{name}`")
    return f"SELECT T.ID AS K, struct(t.*, t.Id AS theOther) AS v FROM {written} t"


def _long(of: Forms) -> str:
    one, first = of.table("t1")
    terms = (f"{of.number(first)} {of._pick('=', '<>')} {n}" for n in range(of.random.choice([300, 900, 900])))
    chain = f" {of._pick('OR', 'AND')} ".join(terms)
    return of._pick(
        *[f"SELECT t1.id AS k FROM {one} WHERE {chain}"] * 2,
        f"SELECT t1.id AS k, {' + '.join([of.number(first)] * of.length())} AS v FROM {one}",
        f"SELECT t1.id AS k FROM {one} WHERE {of.number(first)} IN ({', '.join(map(str, range(of.length())))})",
    )


def _few_arguments(of: Forms) -> str:
    return f"SELECT id AS k, {of._pick('weekday()', 'pmod(x)', 'cardinality()', 'isnull()', 'nvl2(x)')} AS v FROM a"


FORMS: Final[Mapping[str, Callable[[Forms], str]]] = {
    "a star in a function (B1)": _star,
    "a value that is there without its row (B2)": _lacking,
    "LIMIT of a set operation (B3)": _cut_union,
    "LIMIT of parentheses (B3, V2)": _cut_parentheses,
    "PIVOT (B5)": _pivot,
    "UNPIVOT (V1)": _unpivot,
    "zeros of two signs (B6)": _zeros,
    "chance (B7)": _chance,
    "ties in a window (B7)": _window_ties,
    "ties before LIMIT (B7)": _cut_ties,
    "ties of an extreme (B7)": _extreme_ties,
    "texts joined in no order (B7)": _joined_texts,
    "a sum of doubles (B7, V3)": lambda of: _sums(of, "sum", "avg", "mean"),
    "a moment of doubles (B7, V3)": lambda of: _sums(of, "stddev", "var_pop", "skewness"),
    "a list that decides (B7)": _list_order,
    "a list whose order shows (B7)": _list_place,
    "a list sorted by hand (B7)": _list_sorted_by_hand,
    "names in other letters (B8)": _letters,
    "an expression of an expression": _computed,
    "a long chain (V1)": _long,
    "too few arguments": _few_arguments,
    "a hint (V5)": _hint,
    "semi and anti joins": _side_join,
    "keys that may be null": _outer_join,
    "set operations": _usual_set,
    "windows": _window,
    "several groupings": _groups,
    "casts in an equality": _casts,
    "an aggregate of all rows": _all_rows,
}
"""By finding: forms that are compared, unless they are refused."""
FORBIDDEN: Final[Mapping[str, Callable[[Forms], str]]] = {
    "the time (B7)": lambda of: (
        "SELECT id AS k FROM a WHERE "
        + of._pick("DATE'today'", "TIMESTAMP'now'", "TIMESTAMP_NTZ' Yesterday'", "current_date", "now()")
        + " > DATE'2026-01-01'"
    ),
    "outside of SQL (B7, V5)": lambda of: (
        "SELECT id AS k, "
        + of._pick("reflect('java.util.UUID', 'randomUUID')", "java_method('java.lang.System', 'nanoTime')")
        + " AS v FROM a"
    ),
    "TRANSFORM (B7)": lambda of: f"SELECT TRANSFORM ({of._pick('id', 'id, x')}) USING 'cat' AS (k) FROM a",
    "an older version (V5)": lambda of: f"SELECT id AS k FROM a {of._pick('VERSION', 'TIMESTAMP')} AS OF '3'",
    "a sample": lambda of: f"SELECT id AS k FROM b TABLESAMPLE ({of._pick('50 PERCENT', '2 ROWS')})",
    "names behind AS (V1)": lambda of: (
        "SELECT "
        + of._pick("posexplode(array(x)) AS (p, k)", "stack(2, 1, id) AS (k)", "json_tuple(t, 'a', 'b') AS (k, v)")
        + " FROM a"
    ),
    "a variable": lambda of: f"SELECT id AS k, '{of._pick('${env:HOME}', '${x}')}' AS v FROM a",
    "LIMIT without an order": lambda of: f"SELECT id AS k FROM {of._pick(*SHAPES)} {of._pick('LIMIT', 'OFFSET')} 2",
    "a star of PIVOT (B5)": lambda of: "SELECT * FROM b PIVOT (count(id) FOR y IN (1, 2))",
}
"""By finding: forms that the file alone shows to be no view."""
