"""What is proven to mean the same in Spark and in DuckDB: a line for each form of each expression.

`a`, `b` and `c` are the arguments: a form is tried with all combinations of types that the list accepts.
"""

FORMS: dict[str, tuple[str, ...]] = {
    # literals, casts
    "column": ("a",),
    "literals": (
        *("1", "-2147483648", "2147483648", "-9223372036854775808", "12345678901234567890", "1.50", "0.05", ".5", "5."),
        *("-1.5", "1e3", "-2.5E-3", "1.5D", "2L", "5S", "7Y", "1.5BD", "TRUE", "'x'", "'it\\'s'"),
        *("'\\u00e9\\n'", "DATE'2020-02-29'", "TIMESTAMP'2020-02-29 10:11:12.5'", "TIMESTAMP_NTZ'0001-01-01'"),
    ),
    "cast": (
        *(f"CAST(a AS {to})" for to in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")),
        *(f"CAST(a AS {to})" for to in ("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")),
        *(f"CAST(a AS DECIMAL({to}))" for to in ("5,2", "5,0", "10,3", "18,0", "20,6", "38,10", "38,0")),
        *("a::INT", "INT(a)", "STRING(a)", "DATE(a)", "TO_DATE(a)", "CAST('12.50' AS DECIMAL(5,1))"),
    ),
    # comparisons, conditions
    "comparison": ("a = b", "a <> b", "a < b", "a <= b", "a > b", "a >= b", "a <=> b", "a IS DISTINCT FROM b"),
    "comparison with a literal": ("a > 1", "a = -7", "2.5 <= a", "a <> 0.1", "a < 1e3", "a = 'a'", "a > 12345678901"),
    "between": ("a BETWEEN b AND c", "a NOT BETWEEN 1 AND 2.5"),
    "in": ("a IN (b, c)", "a NOT IN (b, NULL)", "a IN (1, 2.5)", "a IN ('a', NULL)"),
    "and, or, not": ("a AND b", "a OR b", "NOT a", "a AND NULL", "NULL OR a", "(a OR b) AND NOT c"),
    "is": ("a IS NULL", "a IS NOT NULL", "a IS TRUE", "a IS NOT FALSE", "isnull(a)", "isnotnull(a)", "isnan(a)"),
    "like": (
        *(
            "a LIKE 'a%'",
            "a LIKE '%b_'",
            "a LIKE '_'",
            "a LIKE ''",
            "a NOT LIKE '%\\\\%b%'",
            "a LIKE 'a!%%' ESCAPE '!'",
        ),
        *("a LIKE '%\\n%'", "a LIKE '\\\\\\\\'", "a LIKE '%\\u00e9'"),
    ),
    # arithmetic
    "plus, minus, times": ("a + b", "a - b", "a * b", "a + 1", "3 * a", "a - 0.5", "a * 1.25", "2 - a"),
    "divide": ("a / b", "a / 3", "1 / a", "a / 0.7", "a DIV b", "a DIV 2", "a % b", "a % 3", "mod(a, b)", "pmod(a, b)"),
    "sign": ("-a", "abs(a)", "sign(a)"),
    "sqrt": ("sqrt(a)",),
    "rounding": ("round(a)", "round(a, 0)", "round(a, 1)", "round(a, 4)", "floor(a)", "ceil(a)", "ceiling(a)"),
    "bits": ("a & b", "a | b", "a ^ b", "~a"),
    # choices
    "coalesce": (
        "coalesce(a, b)",
        "coalesce(a, b, c)",
        "nvl(a, b)",
        "ifnull(a, b)",
        "coalesce(a, 0)",
        "coalesce(a, NULL)",
    ),
    "nullif": ("nullif(a, b)", "nullif(a, 0)", "nvl2(a, b, c)"),
    "case": (
        *("CASE WHEN a THEN b ELSE c END", "CASE a WHEN b THEN 1 WHEN c THEN 2.5 END", "if(a, b, c)", "if(a, b, NULL)"),
        "CASE WHEN a IS NULL THEN 1 ELSE 2L END",
    ),
    "greatest, least": ("greatest(a, b)", "least(a, b)", "greatest(a, b, c)", "least(a, NULL, b)"),
    # texts
    "concatenation": (
        "a || b",
        "concat(a, b)",
        "concat(a, ':', b)",
        "a || 1",
        "concat_ws('-', a, b)",
        "concat_ws(a, b, c)",
    ),
    "letters": ("upper(a)", "lower(a)", "ucase(a)"),
    "length": ("length(a)", "char_length(a)", "character_length(a)", "len(a)"),
    "substring": (
        *(f"substring(a, {at}, {size})" for at in (-9, -4, -1, 0, 1, 2, 9) for size in (-1, 0, 1, 3, 99)),
        *("substring(a, 2)", "substring(a, -2)", "substr(a, 0)", "substring(a FROM 2 FOR 3)"),
        *("left(a, 2)", "left(a, -1)", "right(a, 2)", "right(a, 0)", "right(a, -1)"),
    ),
    "trim": ("trim(a)", "ltrim(a)", "rtrim(a)", "btrim(a)"),
    "replace": ("replace(a, 'a', 'xy')", "replace(a, 'b')", "replace(a, ' ', b)"),
    "search": (
        *("instr(a, b)", "locate(b, a)", "position(b IN a)", "startswith(a, b)", "endswith(a, b)", "contains(a, b)"),
        *("instr(a, '\\u00e9')", "position('', a)"),
    ),
    "repeat, pad": (
        *("repeat(a, 3)", "repeat(a, 0)", "repeat(a, -1)", "lpad(a, 5, 'xy')", "rpad(a, 5)", "lpad(a, 0, 'x')"),
        *("rpad(a, -1, 'x')", "rpad(a, 4, '\\u00e9')"),
    ),
    "md5": ("md5(a)",),
    # dates
    "parts of a date": (
        *("year(a)", "quarter(a)", "month(a)", "day(a)", "dayofmonth(a)", "dayofyear(a)", "dayofweek(a)", "weekday(a)"),
        *("weekofyear(a)", "hour(a)", "minute(a)", "second(a)"),
        *(f"extract({part} FROM a)" for part in ("YEAR", "QUARTER", "MONTH", "DAY", "WEEK", "DOY", "DAYOFWEEK")),
        *(f"extract({part} FROM a)" for part in ("HOUR", "MINUTE")),
    ),
    "dates": (
        *(
            "date_add(a, b)",
            "date_sub(a, b)",
            "date_add(a, 1)",
            "datediff(a, b)",
            "date_diff(a, b)",
            "add_months(a, b)",
        ),
        *("add_months(a, -1)", "last_day(a)"),
        *(f"trunc(a, '{unit}')" for unit in ("YEAR", "QUARTER", "MM", "WEEK")),
        *(
            f"date_trunc('{unit}', a)"
            for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
        ),
    ),
    "microseconds": ("unix_micros(a)", "unix_micros(CAST(a AS TIMESTAMP))"),
    "intervals": (
        *(f"a {sign} INTERVAL '1' {unit}" for sign in "+-" for unit in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE")),
        *("a + INTERVAL 13 MONTHS", "a - INTERVAL 2 WEEKS", "a + INTERVAL 90 SECONDS"),
    ),
    # structs, arrays
    "struct": (
        "struct(a, b)",
        "struct(a AS x, 1, b AS y)",
        "named_struct('x', a, 'y', struct(b))",
        "struct(a, b AS x).x",
    ),
    "array": ("array(a)", "array(a, b)"),
    "arrays": (
        *("size(a)", "cardinality(a)", "array_contains(a, b)", "array_contains(a, 1)", "array_contains(a, 'a')"),
        *("sort_array(a)", "sort_array(a, FALSE)", "sort_array(a, TRUE)", "array_sort(a)"),
        *("sort_array(array(struct(a, b), struct(b AS a, a AS b)))", "sort_array(array(a, b))"),
    ),
}
"""Forms that are computed from one row."""

AGGREGATES: dict[str, tuple[str, ...]] = {
    "count": ("count(*)", "count(a)", "count(a, n)", "count(DISTINCT a)", "count(DISTINCT a, n % 2)", "count_if(a)"),
    "sum": ("sum(a)", "sum(DISTINCT a)", "sum(a) + 1"),
    "avg": ("avg(a)", "avg(DISTINCT a)", "mean(a)"),
    "min, max": ("min(a)", "max(a)", "max(DISTINCT a)"),
    "bool_and, bool_or": ("bool_and(a)", "every(a)", "bool_or(a)", "some(a)", "any(a)"),
    "filter": ("sum(a) FILTER (WHERE n > 3)", "count(*) FILTER (WHERE a IS NULL)", "avg(a) FILTER (WHERE n > 3)"),
    "collect_list, collect_set": (
        *(
            "collect_list(a)",
            "collect_list(struct(n, a))",
            "array_agg(a)",
            "collect_set(a)",
            "collect_list(DISTINCT a)",
        ),
        *("sort_array(collect_list(a))", "sort_array(collect_set(a), FALSE)", "size(collect_list(a))"),
        "sort_array(collect_list(struct(a, n)), FALSE)",
    ),
}
"""Forms that are computed from a group of rows."""

WINDOWS: dict[str, tuple[str, ...]] = {
    "ranks": (
        *("row_number() OVER (ORDER BY a, n)", "rank() OVER (ORDER BY a)", "dense_rank() OVER (ORDER BY a DESC)"),
        *(
            "rank() OVER (PARTITION BY n % 3 ORDER BY a NULLS LAST)",
            "row_number() OVER (ORDER BY a DESC NULLS FIRST, n)",
        ),
    ),
    "neighbours": (
        *(
            "lag(a) OVER (ORDER BY n)",
            "lead(a, 2) OVER (PARTITION BY n % 3 ORDER BY a, n)",
            "lag(a, 1, a) OVER (ORDER BY n)",
        ),
        *("first_value(a) OVER (ORDER BY a DESC, n)", "last_value(a) OVER (ORDER BY a, n)"),
    ),
    "aggregates over windows": (
        *(
            "count(*) OVER ()",
            "max(a) OVER (PARTITION BY n % 3)",
            "count(a) OVER (ORDER BY a)",
            "sum(a) OVER (ORDER BY a)",
        ),
        *("avg(a) OVER (PARTITION BY n % 3 ORDER BY a)", "min(a) OVER (ORDER BY a DESC)"),
        "sum(a) OVER (ORDER BY n ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
        "count(a) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
        "max(a) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
        "min(a) OVER (ORDER BY a RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        "bool_or(a) OVER (PARTITION BY n % 3)",
    ),
}
"""Forms that are computed from a window of rows."""

STATEMENTS: dict[str, tuple[str, ...]] = {
    "joins": (
        "SELECT p.id, q.y, p.at FROM p JOIN q ON p.id = q.p_id",
        "SELECT p.id, q.y, q.at FROM p LEFT JOIN q ON p.id = q.p_id AND q.y > 1",
        "SELECT p.id, q.y FROM p RIGHT OUTER JOIN q ON p.id = q.p_id",
        "SELECT p.id, q.y FROM p FULL JOIN q ON p.id = q.p_id",
        "SELECT p.id, q.y FROM p CROSS JOIN q WHERE p.x < q.y",
        "SELECT p.id, q.y FROM p, q WHERE p.t = q.t",
        "SELECT id, t FROM p LEFT SEMI JOIN q ON p.id = q.p_id",
        "SELECT id, t FROM p LEFT ANTI JOIN q ON p.id = q.p_id",
        "SELECT p.id, q.id AS other FROM p JOIN q ON p.d = q.d",
        "SELECT p.id, q.id AS other FROM p JOIN q ON p.d <=> q.d",
        "SELECT p.id, q.id AS other FROM p JOIN q ON p.x = q.id",
        "SELECT t, p.x, q.y FROM p JOIN q USING (t)",
        "SELECT t, p.x, q.y FROM p FULL JOIN q USING (t)",
        "SELECT l.id, r.id AS other FROM p l JOIN p r ON l.t = r.t AND l.id < r.id",
    ),
    "subqueries": (
        "SELECT id FROM p WHERE EXISTS (SELECT 1 FROM q WHERE q.p_id = p.id AND q.y > p.x)",
        "SELECT id FROM p WHERE NOT EXISTS (SELECT 1 FROM q WHERE q.p_id = p.id)",
        "SELECT id FROM p WHERE id IN (SELECT p_id FROM q)",
        "SELECT id FROM p WHERE id NOT IN (SELECT p_id FROM q)",
        "SELECT id FROM p WHERE id NOT IN (SELECT p_id FROM q WHERE p_id IS NOT NULL)",
        "SELECT id, (SELECT max(q.y) FROM q WHERE q.p_id = p.id) AS top FROM p",
        "SELECT id, (SELECT count(*) FROM q WHERE q.p_id = p.id) AS n FROM p",
        "WITH s AS (SELECT p_id, count(*) AS n FROM q GROUP BY p_id) SELECT p.id, s.n FROM p JOIN s ON s.p_id = p.id",
        "SELECT id, n + 1 AS m FROM (SELECT id, count(*) AS n FROM q GROUP BY id) AS s (id, n)",
    ),
    "groups": (
        "SELECT t, count(*) AS n, sum(x) AS s, max(m) AS top FROM p GROUP BY t",
        "SELECT upper(t) AS t, count(*) AS n FROM p WHERE t IN ('a', 'b') GROUP BY upper(t) HAVING count(*) > 1",
        "SELECT x % 2 AS odd, ok, avg(m) AS mean, sum(x) / count(*) AS ratio FROM p GROUP BY x % 2, ok",
        "SELECT date_trunc('DAY', at) AS day, count(*) AS n FROM p GROUP BY date_trunc('DAY', at)",
        "SELECT count(*) AS n, sum(x) AS s FROM p WHERE FALSE",
        "SELECT DISTINCT x, t, m FROM p",
        "SELECT p.id, collect_list(struct(q.id, q.y, q.at)) AS list FROM p LEFT JOIN q ON q.p_id = p.id GROUP BY p.id",
        "SELECT id, size(l) AS n FROM (SELECT p_id AS id, collect_set(y) AS l FROM q GROUP BY p_id)",
        "SELECT id, s.y AS y FROM (SELECT id, struct(y, t) AS s FROM q)",
        "SELECT t, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS r FROM p GROUP BY t",
    ),
    "windows of time": (
        "SELECT window.start AS begin, window.end, count(*) AS n FROM q GROUP BY window(at, '1 hour')",
        "SELECT window.start AS begin, t, sum(x) AS s FROM p GROUP BY window(at, '1 day', '1 day', '3 hours'), t",
        "SELECT window.start AS begin, window.end, count(*) AS n FROM p GROUP BY window(at, '2 days', '30 hours')",
        "SELECT window.start AS begin, max(q.y) AS top FROM p LEFT JOIN q ON q.p_id = p.id"
        " GROUP BY window(q.at, '2 seconds', '1 second')",
        "SELECT id, window(at, '1 microsecond') AS w FROM q",
    ),
    "unions": (
        "SELECT id, x FROM p UNION ALL SELECT id, y FROM q",
        "SELECT x FROM p UNION SELECT y FROM q",
        "SELECT m AS v FROM p UNION ALL SELECT y AS v FROM q UNION ALL SELECT 1.2345 AS v FROM q",
        "SELECT x, t FROM p EXCEPT SELECT y, t FROM q",
        "SELECT x FROM p EXCEPT ALL SELECT y FROM q",
        "SELECT x, t FROM p INTERSECT SELECT y, t FROM q",
        "SELECT x FROM p INTERSECT ALL SELECT y FROM q",
        "SELECT id, x FROM p UNION ALL SELECT id, NULL AS x FROM q",
    ),
}
"""Statements, for their clauses."""

FAILING = (
    "SELECT sum(v) AS s FROM (SELECT 9223372036854775807 AS v FROM p UNION ALL SELECT 1 AS v FROM p)",
    "SELECT id, (SELECT q.y FROM q WHERE q.p_id = p.id) AS v FROM p",
    "SELECT id / 0 AS v FROM p",
    "SELECT id FROM p WHERE 1 / (id - 1) > 0",
)
"""Statements that fail in both engines."""
