"""Tries every form of the list with every combination of types that it accepts."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

import pyarrow as pa
from sqlglot import exp

from cdc.core.table import Column, Table, TableName
from cdc.core.table import Kind as ColumnKind
from cdc.views.statement import parsing
from cdc.views.statement.dialect.statements import DuckStatement, write_statement
from cdc.views.statement.entrance.kinds import Kind, kind_of
from cdc.views.statement.normal_form import normalize
from cdc.views.statement.statement import Statement
from cdc.views.statement.tree.build import build_tree
from tests.support.views.proven_cases import FORMS
from tests.support.views.statements.edge_values import EDGES, edge_table
from tests.support.views.two_engines import Accepted, Engines, Results

T_NAME = TableName("public", "t")
_OF_ANY_TYPES = {"struct", "concatenation"}
"""Forms that take each argument by itself: pairs of different types prove no more of them."""
_ANY = Table(T_NAME, tuple(Column(name, ColumnKind.INTEGER) for name in "nabc"), ("n",))


@dataclass(frozen=True, slots=True)
class Form:
    """A form of the list: an expression of the columns a, b and c."""

    name: str
    text: str

    @property
    def arity(self) -> int:
        used = re.findall(r"\b[abc]\b", re.sub(r"'[^']*'", "", self.text))
        return max((ord(each) - ord("a") + 1 for each in used), default=0)


@dataclass(slots=True)
class Outcome:
    """What was found of one form: how many combinations of types and of values, and where the engines differ."""

    types: int = 0
    compared: int = 0
    both_fail: int = 0
    left_to_spark: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, results: Results, expected_type: str, types: Sequence[str], rows: pa.Table) -> None:
        self.types += 1
        self.compared += results.compared
        self.both_fail += results.both_fail
        self.left_to_spark += results.left_to_spark
        if results.type != expected_type:
            self.differences.append(f"{', '.join(types)}: Spark's type is {results.type}, not {expected_type}")
        for row in results.differences[:1]:
            values = f"{results.spark[row]!r} in Spark, {results.duckdb[row]!r} in DuckDB"
            self.differences.append(
                f"{', '.join(types)}: of {show(rows, row)} {values}, and {len(results.differences)} more"
            )


def show(rows: pa.Table, row: int) -> str:
    """A row's values, for a message."""
    return ", ".join(str(column[row]) for column in rows.columns[1:])[:300]


@cache
def forms() -> tuple[Form, ...]:
    """All forms, in the order of the table."""
    return tuple(Form(name, text) for name, texts in FORMS.items() for text in texts)


@cache
def qualify_form(form: Form) -> exp.Query:
    """A form as sqlglot qualifies it, which is the same for all types."""
    sql = form.text if form.text.startswith("SELECT ") else f"SELECT {form.text} AS v FROM t"
    return parsing._qualify("v", normalize(parsing.parse_query("v", sql)), [_ANY])


def accepted(form: Form, table: Table) -> Accepted | None:
    """A form over this table, if it is on the list."""
    return accept(form_over(form, table))


def form_over(form: Form, table: Table) -> Statement:
    """A form as a statement over this table."""
    return Statement("", build_tree(qualify_form(form).copy(), lambda _: table), {T_NAME: table}, (), ())


def accept(statement: Statement) -> Accepted | None:
    """The one expression of a statement over the table `t`, if it is on the list."""
    found = write_statement(statement, {T_NAME: "t"})
    if not isinstance(found, DuckStatement):
        return None
    expression, _, source = found.sql.removeprefix("SELECT ").partition(' AS "v" FROM ')
    return Accepted(expression, source, found.types[0].simpleString())


def kinds(form: Form) -> set[Kind]:
    """The entries of the list that a form has in it."""
    return {kind_of(node) for node in qualify_form(form).walk()}


def combinations(arity: int) -> Iterator[tuple[str, ...]]:
    """The types of the arguments: all pairs; of three arguments, those of one type, and those after a boolean."""
    if arity == 3:
        yield from ((each,) * 3 for each in EDGES)
        yield from (("boolean", each, each) for each in EDGES)
    else:
        yield from product(EDGES, repeat=max(arity, 1)) if arity else [("boolean",)]


def prove(engines: Engines, arity: int, types: Iterable[tuple[str, ...]]) -> dict[Form, Outcome]:
    """Compare all forms of so many arguments; forms that accept no combination are not in the result."""
    outcomes = dict[Form, Outcome]()
    mine = [form for form in forms() if form.arity == arity]
    for each in types:
        table, rows = edge_table(each)
        found = {form: sql for form in mine if (sql := accepted(form, table))}
        if len(set(each)) > 1 and "text" not in each and {form.name for form in found} <= _OF_ANY_TYPES:
            continue
        engines.put(table, rows)
        results = engines.compare({form.text: sql for form, sql in found.items()})
        for form, sql in found.items():
            outcomes.setdefault(form, Outcome()).add(results[form.text], sql.type, each, rows)
    return outcomes
