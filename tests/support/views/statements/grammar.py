"""Random statements over three small tables: what users write, and what they write seldom.

Dense where an analysis errs: values that are there without their row, outer joins, stars in functions, LIMIT around
UNION, windows that tie, expressions of expressions, names in other letters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.support.views.statements.forms import FORBIDDEN, FORMS, write_form
from tests.support.views.statements.grammar_values import SHAPES, TABLES, Source, ValueGrammar

__all__ = ["SHAPES", "TABLES", "Grammar", "RandomStatement"]


@dataclass(frozen=True, slots=True)
class RandomStatement:
    sql: str
    key: tuple[str, ...]


@dataclass(slots=True)
class Grammar(ValueGrammar):
    """Writes statements."""

    def statement(self) -> RandomStatement:
        if self._chance(0.3):
            return RandomStatement(write_form(self._pick(*FORMS, *FORBIDDEN), self.random), ("k",))
        if self._chance(0.3):
            return RandomStatement(self._respell(self._chain()), ("k",))
        if self._chance(0.25):
            return RandomStatement(self._common(), ("k",))
        sql, columns = self._query(depth=2)
        names = [name for name in columns if columns[name] in "nls"] or [*columns]
        # the first outputs are plain columns, which lead to keys
        names = names[: self.random.choice([1, 1, 2, 9])]
        key = self.random.sample(names, min(len(names), self.random.choice([1, 1, 2])))
        if self.random.random() < self.odd / 4:
            key = [*key, self.random.choice(["nope", key[0].upper()])]
        return RandomStatement(self._respell(sql), tuple(key))

    def _common(self) -> str:
        """What many write: the newest row of a group, the first of all, a card with a list, two tables as one."""
        first, second = replace(self._base(), name="t1"), replace(self._base(), name="t2")
        one, two = (next(name for name, c in SHAPES.items() if c is each.columns) for each in (first, second))
        mine, order, theirs = (self._column("n", [each]) for each in (first, first, second))
        order = f"{order}, t1.id" if self._chance(0.6) else order
        word = self._pick("UNION", "UNION ALL", "EXCEPT")
        union = f"SELECT t1.id AS k, {mine} AS v FROM {one} t1 {word} SELECT t2.id, {theirs} FROM {two} t2"
        return self._pick(
            f"SELECT r.id AS k FROM (SELECT t1.id, row_number() OVER (PARTITION BY {mine} ORDER BY {order}) AS n"
            f" FROM {one} t1) r WHERE r.n = 1",
            f"SELECT t1.id AS k, {mine} AS v FROM {one} t1 ORDER BY {order} LIMIT {self.random.randint(1, 3)}",
            f"{union} ORDER BY v, k LIMIT {self.random.randint(1, 3)}",
            f"SELECT t1.id AS k, collect_list(struct(t2.*)) AS l, count(*) AS n FROM {one} t1"
            f" LEFT JOIN {two} t2 ON {theirs} = t1.id GROUP BY t1.id",
            f"SELECT t1.id AS k, {self._star([first])} AS j FROM {one} t1",
            f"SELECT {mine} AS k, max_by(t1.id, {order}) AS v FROM {one} t1 GROUP BY {mine}"
            if "," not in order
            else f"SELECT {mine} AS k, max_by(t1.id, struct({order})) AS v FROM {one} t1 GROUP BY {mine}",
        )

    def _chain(self) -> str:
        """Three tables, each by the one before it: the second may have no row, and gives a value all the same."""
        (one, first), (two, second), (three, third) = ((base.name, base) for base in (self._base() for _ in range(3)))
        first, second, third = (replace(each, name=f"t{n}") for n, each in enumerate((first, second, third), 1))
        value = self._number([second], 1) if self._chance(0.8) else self._value("n", [first, second], 2)
        joined = f"{one} t1 LEFT JOIN {two} t2 ON {self._column('n', [second])} = {self._column('n', [first])}"
        theirs = self._column("n", [third])
        columns = f"SELECT t1.id AS k, {self._value('n', [first, second], 1)} AS v"
        return self._pick(
            f"{columns}, {self._column('n', [third])} AS w FROM {joined} JOIN {three} t3 ON {theirs} = {value}",
            f"{columns}, {self._column('n', [third])} AS w FROM {joined} LEFT JOIN {three} t3 ON {theirs} = {value}",
            f"{columns} FROM {joined} LEFT ANTI JOIN {three} t3 ON {theirs} = {value}",
            f"{columns} FROM {joined} WHERE EXISTS (SELECT 1 FROM {three} t3 WHERE {theirs} = {value})",
            f"{columns}, (SELECT count(*) FROM {three} t3 WHERE {theirs} = {value}) AS n FROM {joined}",
            f"SELECT s.k, count(t3.id) AS n FROM (SELECT t1.id AS k, {value} AS j FROM {joined}) s"
            f" JOIN {three} t3 ON {theirs} = s.j GROUP BY s.k",
        )

    def _respell(self, sql: str) -> str:
        """Now and then a table or a column in other letters, or a hint."""
        if self.random.random() < 0.1:
            sql = sql.replace("FROM a ", "FROM A ").replace("FROM b ", "FROM public.B ")
        if self.random.random() < 0.1:
            sql = sql.replace(".id", ".Id").replace(".y", ".Y")
        if self.random.random() < 0.05:
            sql = sql.replace("SELECT ", "SELECT /*+ BROADCAST(b) */ ", 1)
        return sql

    def _query(self, depth: int) -> tuple[str, dict[str, str]]:
        """A query, and its columns' types."""
        if depth and self._chance(0.15):
            return self._set_operation(depth)
        return self._select(depth)

    def _set_operation(self, depth: int) -> tuple[str, dict[str, str]]:
        types = [self._pick("n", "n", "s") for _ in range(self.random.randint(1, 3))]
        names = [self._name("u") for _ in types]
        word = self._pick("UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT")
        branches = [self._branch(types, names if at == 0 else []) for at in range(2)]
        sql = f" {word} ".join(branches)
        if self._chance(0.3):
            sql += f" ORDER BY {', '.join(names if self._chance(0.8) else names[:1])} LIMIT {self.random.randint(1, 4)}"
            sql += self._pick("", "", " OFFSET 1")
        return sql, dict(zip(names, types, strict=True))

    def _branch(self, types: Sequence[str], names: Sequence[str]) -> str:
        source = self._base()
        values = [self._column(of, [source]) if self._chance(0.6) else self._value(of, [source], 1) for of in types]
        if names:
            values = [f"{value} AS {name}" for value, name in zip(values, names, strict=True)]
        where = f" WHERE {self._condition([source], 1)}" if self._chance(0.5) else ""
        return f"SELECT {', '.join(values)} FROM {source.name} {where}"

    def _base(self) -> Source:
        name = self._pick(*SHAPES)
        return Source(name, SHAPES[name])

    def _select(self, depth: int) -> tuple[str, dict[str, str]]:
        from_, sources = self._from(depth)
        if self._chance(0.1):
            from_ += f" LATERAL VIEW explode(array(1, {self._column('n', sources)})) e AS e{len(sources)}"
        if self._chance(self.odd / 8):
            from_ += f", LATERAL (SELECT max(b.y) AS top FROM b WHERE b.a_id = {self._column('n', sources)}) lat"
        where = self._where(sources, depth)
        if self._chance(0.4):
            return self._grouped(from_, sources, where)
        columns = self._outputs(sources, depth)
        values = ", ".join(f"{value} AS {name}" for name, (value, _) in columns.items())
        sql = f"SELECT {self._pick('', '', '', 'DISTINCT ')}{values} FROM {from_}{where}"
        return self._cut(sql, [*columns]), {name: of for name, (_, of) in columns.items()}

    def _cut(self, sql: str, names: Sequence[str]) -> str:
        if not self._chance(0.08):
            return sql
        names = names if self._chance(0.8) else names[:1]
        return f"{sql} ORDER BY {', '.join(names)} LIMIT {self.random.randint(1, 4)}"

    def _outputs(self, sources: Sequence[Source], depth: int) -> dict[str, tuple[str, str]]:
        found = dict[str, tuple[str, str]]()
        for source in sources[: self.random.randint(1, len(sources))]:
            column = "id" if "id" in source.columns and self._chance(0.7) else self._pick(*source.columns)
            found[self._name("k")] = (f"{source.name}.{column}", source.columns[column])
        for _ in range(self.random.randint(0, 3)):
            of = self._pick("n", "n", "s")
            value = self._window(sources) if of == "n" and self._chance(0.15) else self._value(of, sources, depth + 1)
            found[self._name("v")] = (value, of)
        if self._chance(0.15):
            found[self._name("j")] = (self._star(sources), "j")
        if depth and self._chance(0.1):
            found[self._name("q")] = (self._scalar(sources), "n")
        return found

    def _star(self, sources: Sequence[Source]) -> str:
        star = self._pick("*", f"{self.random.choice(sources).name}.*")
        return self._pick(f"to_json(struct({star}))", f"struct({star})", f"hash({star})", f"xxhash64({star})")

    def _scalar(self, sources: Sequence[Source]) -> str:
        value = self._value("n", sources, 1)
        return self._pick(
            f"(SELECT max(c.z) FROM c WHERE c.a_id = {value})",
            f"(SELECT count(*) FROM b b9 WHERE b9.y = {value})",
            f"(SELECT max(y) FROM b b8 WHERE b8.a_id = {value} AND b8.id > 1)",
        )

    def _window(self, sources: Sequence[Source]) -> str:
        part = self._column("n", sources)
        keys = ", ".join(f"{source.name}.{self._key(source)}" for source in sources)
        order = f"{self._column('n', sources)}, {keys}" if self._chance(0.7) else self._column("n", sources)
        function = self._pick("row_number()", "rank()", f"lag({self._column('n', sources)})", "count(*)")
        return f"{function} OVER (PARTITION BY {part} ORDER BY {order})"

    def _key(self, source: Source) -> str:
        return "id" if "id" in source.columns else next(iter(source.columns))

    def _grouped(self, from_: str, sources: Sequence[Source], where: str) -> tuple[str, dict[str, str]]:
        types = [self._pick("n", "n", "s") for _ in range(self.random.randint(1, 2))]
        groups = [self._column(of, sources) if self._chance(0.75) else self._value(of, sources, 1) for of in types]
        found = {self._name("g"): (group, of) for group, of in zip(groups, types, strict=True) if not group.isdigit()}
        if not found:
            found = {self._name("g"): (f"{sources[0].name}.{self._key(sources[0])}", "n")}
        groups = [group for group, _ in found.values()]
        for _ in range(self.random.randint(1, 3)):
            found[self._name("w")] = self._aggregate(sources)
        having = f" HAVING {self._aggregate(sources)[0]} IS NOT NULL" if self._chance(0.1) else ""
        if self._chance(0.15):
            having = f" HAVING count(*) > {self._pick(0, 1)}"
        values = ", ".join(f"{value} AS {name}" for name, (value, _) in found.items())
        sql = f"SELECT {values} FROM {from_}{where} GROUP BY {', '.join(groups)}{having}"
        return sql, {name: of for name, (_, of) in found.items()}

    def _aggregate(self, sources: Sequence[Source]) -> tuple[str, str]:
        value, text, key = self._value("n", sources, 1), self._value("s", sources, 1), self._column("n", sources)
        choices = [
            ("count(*)", "l"),
            (f"sum({value})", "l"),
            (f"max({value})", "n"),
            (f"count(DISTINCT {value})", "l"),
            (f"mean({key})", "f"),
            (f"collect_list({value})", "j"),
            (f"sort_array(collect_list(struct({key}, {text})))", "j"),
            (f"collect_list({self._star(sources)})", "j"),
            (f"max_by({value}, struct({key}, {', '.join(f'{s.name}.{self._key(s)}' for s in sources)}))", "n"),
            (f"count(*) FILTER (WHERE {self._condition(sources, 0)})", "l"),
            (f"listagg({text}, ',') WITHIN GROUP (ORDER BY {text})", "s"),
        ]
        if self._chance(self.odd + 0.05):
            choices = [
                (f"max_by({text}, {value})", "s"),
                (f"string_agg({text}, ',')", "s"),
                (f"first({value})", "n"),
                (f"collect_list({value})[0]", "n"),
                (f"sum({self._column('f', sources)})", "f"),
            ]
        return self.random.choice(choices)

    def _from(self, depth: int) -> tuple[str, list[Source]]:
        sql, first = self._source(depth)
        sources = [first]
        if self._chance(self.odd / 4) and sql in SHAPES:
            sql = self._pick(
                f"{sql} PIVOT (count(*) FOR id IN (1, 2))",
                f"{sql} UNPIVOT (v FOR k IN ({', '.join([*SHAPES[sql]][:2])}))",
                f"{sql} TABLESAMPLE (50 PERCENT)",
                f"{sql} VERSION AS OF 1",
            )
        for _ in range(self.random.choice([0, 0, 1, 1, 1, 2, 2])):
            other, source = self._source(depth)
            join = self._pick(
                "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "ANTI"
            )
            sql += f" {join.replace('ANTI', 'LEFT ANTI JOIN')} {other} ON {self._on(sources, source)}"
            if join not in ("LEFT SEMI JOIN", "ANTI"):
                sources.append(source)
        return sql, sources

    def _source(self, depth: int) -> tuple[str, Source]:
        if depth and self._chance(0.25):
            inner, columns = self._query(depth - 1)
            usable = {name: of for name, of in columns.items() if of in "nlsmf"}
            if any(of in "nl" for of in usable.values()):
                alias = self._name("s")
                inner = f"({inner})" if " LIMIT " in inner and self._chance(0.2) else inner
                return f"({inner}) {alias}", Source(alias, usable)
        base, alias = self._base(), self._name("t")
        return f"{base.name} {alias}", Source(alias, base.columns)

    def _on(self, sources: Sequence[Source], other: Source) -> str:
        """Mostly an equality, whose sides may be computed."""
        mine = self._column("n", sources) if self._chance(0.55) else self._number(sources[-1:], 1)
        theirs = self._column("n", [other]) if self._chance(0.85) else self._value("n", [other], 1)
        on = f"{mine} {self._pick(*['='] * 18, '<=>', '<')} {theirs}"
        return f"{on} AND {self._condition([*sources, other], 0)}" if self._chance(0.2) else on

    def _where(self, sources: Sequence[Source], depth: int) -> str:
        if not self._chance(0.45):
            return ""
        value, condition = self._value("n", sources, 2), self._condition(sources, 1)
        choices = [condition, condition]
        if depth:
            choices += [
                f"{value} IN (SELECT z FROM c)",
                f"{value} IN (SELECT y FROM b ORDER BY y LIMIT 2)",
                f"{value} NOT IN (SELECT z FROM c WHERE z IS NOT NULL)",
                f"EXISTS (SELECT 1 FROM b b7 WHERE b7.a_id = {value})",
                f"NOT EXISTS (SELECT 1 FROM c c7 WHERE c7.z = {value} AND c7.id > 1)",
            ]
        return f" WHERE {self._pick(*choices)}"
