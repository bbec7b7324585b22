"""Random expressions: values that are there without their row, odd casts, expressions of expressions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from cdc.core.table import Column, Kind, Table, TableName

_KINDS: Final = {"n": Kind.INTEGER, "l": Kind.BIGINT, "s": Kind.TEXT, "m": Kind.DECIMAL, "f": Kind.DOUBLE}
"""Types of values by letters."""


def _table(name: str, columns: Mapping[str, str]) -> Table:
    made = [Column(c, _KINDS[t], 10, 2) if t == "m" else Column(c, _KINDS[t]) for c, t in columns.items()]
    return Table(TableName("public", name), tuple(made), ("id",))


SHAPES: Final = {
    "a": {"id": "n", "x": "n", "t": "s", "f": "f"},
    "b": {"id": "n", "a_id": "n", "y": "n", "m": "m"},
    "c": {"id": "n", "b_id": "n", "a_id": "n", "z": "n", "t": "s"},
}
TABLES: Final = {each.name: each for each in (_table(name, columns) for name, columns in SHAPES.items())}


@dataclass(frozen=True, slots=True)
class Source:
    """A name in FROM, and the types of its columns."""

    name: str
    columns: Mapping[str, str]


@dataclass(slots=True)
class ValueGrammar:
    """Writes expressions. `odd`: also what nobody means, and what is refused."""

    random: Random
    odd: float = 0.0
    _names: int = field(default=0)

    def _pick(self, *choices: object) -> str:
        return str(self.random.choice(choices))

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _condition(self, sources: Sequence[Source], depth: int) -> str:
        value, other = self._value("n", sources, depth), self._value("n", sources, depth)
        return self._pick(
            f"{value} > 1",
            f"{value} IS NOT NULL",
            f"{value} = {other}",
            f"{value} IN (0, 2)",
            f"coalesce({value}, 0) < {self._pick(2, 3)}",
            f"({value} = 1 OR {other} = 2)",
            f"NOT ({value} <=> {other})",
        )

    def _column(self, of: str, sources: Sequence[Source]) -> str:
        """A column of a type, or a value of it where no name has one."""
        found = [
            f"{source.name}.{name}"
            for source in sources
            for name, mine in source.columns.items()
            if mine == of or (of == "n" and mine == "l")
        ]
        if found:
            return self._pick(*found)
        return self._pick("CAST(NULL AS INT)", 1, 2) if of in "nl" else self._pick("'a'", "'b'")

    def _value(self, of: str, sources: Sequence[Source], depth: int) -> str:
        if not depth or self._chance(0.35):
            return self._column(of, sources)
        return self._text(sources, depth - 1) if of == "s" else self._number(sources, depth - 1)

    def _number(self, sources: Sequence[Source], depth: int) -> str:
        def part(of: str = "n") -> str:
            return self._value(of, sources, depth)

        forms: list[Callable[[], str]] = [
            lambda: f"({part()} + 1)",
            lambda: f"({part()} * 1)",
            lambda: f"coalesce({part()}, 0)",
            lambda: f"coalesce({part()}, {part()})",
            lambda: f"(coalesce({part()}, 0) * 1)",
            lambda: f"nvl2({part()}, {part()}, 0)",
            lambda: f"nvl({part()}, 1)",
            lambda: f"if({part()} IS NULL, 0, {part()})",
            lambda: f"CASE WHEN {part()} > 1 THEN {part()} ELSE 0 END",
            lambda: f"CASE {part()} WHEN 1 THEN 2 WHEN 2 THEN NULL ELSE 1 END",
            lambda: f"greatest({part()}, 0)",
            lambda: f"least({part()}, {part()})",
            lambda: f"nullif({part()}, 1)",
            lambda: f"({part()} % 3)",
            lambda: f"length({part('s')})",
            lambda: f"pmod({part()}, 2)",
            lambda: f"CAST({part()} AS INT)",
            lambda: f"CAST(CAST({part()} AS STRING) AS INT)",
            lambda: f"TRY_CAST({part('s')} AS INT)",
            lambda: f"int({part()} <=> {part()})",
            lambda: f"size(array({part()}, {part()}))",
            lambda: f"abs({part()})",
            lambda: f"({part()} & 1)",
        ]
        if self._chance(self.odd / 3):
            forms = [
                lambda: f"weekday({self._pick('', part())})",
                lambda: "int(uniform(1, 3))",
                lambda: f"datediff(DATE'today', DATE'202{part()[:1]}-01-01')",
                lambda: f"my_own({part()})",
                lambda: f"reflect('java.lang.Math', 'abs', {part()})",
                lambda: f"pmod({part()})",
                lambda: f"element_at(array({part()}), 1)",
                lambda: f"({' + '.join([part()] * 40)})",
                lambda: f"aggregate(array({part()}), 0, (l, r) -> l + r)",
            ]
        return self.random.choice(forms)()

    def _text(self, sources: Sequence[Source], depth: int) -> str:
        def part(of: str = "s") -> str:
            return self._value(of, sources, depth)

        forms: list[Callable[[], str]] = [
            lambda: f"upper({part()})",
            lambda: f"trim({part()})",
            lambda: f"concat({part()}, 'x')",
            lambda: f"concat_ws('-', {part()}, {part()})",
            lambda: f"coalesce({part()}, 'z')",
            lambda: f"CAST({part('n')} AS STRING)",
            lambda: f"substring({part()}, 1, 1)",
            lambda: f"if({part('n')} > 1, {part()}, 'no')",
            lambda: f"nvl({part()}, CAST({part('n')} AS STRING))",
            lambda: f"initcap({part()})",
            lambda: f"({part()} || {part()})",
        ]
        return self.random.choice(forms)()
