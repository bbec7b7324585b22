"""Translates the expressions of a statement to DuckDB's SQL, and reports those that are not on the list."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from pyspark.sql import types as T
from sqlglot import exp

from cdc.columns.types.spark_types import spark_type
from cdc.core.table import Table, TableName
from cdc.views.statement.analysis.demand import list_read_columns
from cdc.views.statement.analysis.keys import RowIdentity
from cdc.views.statement.analysis.ties import is_total
from cdc.views.statement.dialect.precedence import check_precedence
from cdc.views.statement.dialect.registry import AGGREGATES, PROVEN
from cdc.views.statement.dialect.types import BOOLEAN, NOTHING
from cdc.views.statement.dialect.values import NotProvenError, PartNotProvenError, Unproven, Value, require, retype
from cdc.views.statement.entrance.kinds import kind_of, name_of, place_of
from cdc.views.statement.statement import Statement
from cdc.views.statement.tree.nodes import Select

LONGEST: Final = 20_000
"""Of the SQL of one expression, in characters. Some functions write their argument several times, and what is nested
grows exponentially: at 12,000, DuckDB plans as long as Spark computes."""
GROWTH: Final = 20
"""How often an expression may be longer in DuckDB than in the statement: a list of many literals may be long."""


class Translator:
    """Translates the parts of one statement. `unproven` has all that was found so far, without what is there twice.

    `names`: of the tables in DuckDB. `read`: the columns that these have there. `sources`: of all queries that were
    read so far, the types of their columns; their names are unique.
    """

    def __init__(self, statement: Statement, names: Mapping[TableName, str]) -> None:
        self.names = names
        self.read = list_read_columns(statement)
        self.sources: dict[str, Mapping[str, T.DataType]] = {}
        self.unproven: dict[Unproven, None] = {}
        self._identity = RowIdentity(statement.tree)
        self._query: Select | None = None
        # the parts of the expression at hand whose values were asked for
        self._asked: list[exp.Expr] = []

    @contextmanager
    def within(self, query: Select) -> Iterator[None]:
        """Translate expressions of this query."""
        around, self._query = self._query, query
        try:
            yield
        finally:
            self._query = around

    def is_total(self, window: exp.Window) -> bool:
        """Whether a window of the query leaves no two rows that differ side by side."""
        return self._query is not None and is_total(self._identity, self._query, window)

    def type_of_column(self, source: str, name: str) -> T.DataType:
        require(source in self.sources, f"no table {source}")
        require(name in self.sources[source], f"no column {name}")
        return self.sources[source][name]

    def value(self, node: exp.Expr) -> Value:
        """Translate an expression; raises PartNotProvenError after it was reported."""
        # what its writer asks for is noted, so that a failure reports each other part once, not those again
        self._asked.append(node)
        around, self._asked = self._asked, list[exp.Expr]()
        asked = self._asked
        try:
            return _check_length(node, self._write(node))
        except NotProvenError as error:
            self.report(node, str(error))
        except PartNotProvenError:
            pass
        except (LookupError, AttributeError, TypeError, ValueError, AssertionError, StopIteration):
            # more arguments than its proof has seen, or fewer: Spark says what it thinks of them
            self.report(node, "with arguments that nobody has tried")
        finally:
            self._asked = around
        self._report_others(node, asked)
        raise PartNotProvenError

    def _report_others(self, node: exp.Expr, asked: Sequence[exp.Expr]) -> None:
        """Report what the other parts of an expression have, too."""
        for part in node.iter_expressions():
            is_new = all(part is not each for each in asked)
            if is_new and kind_of(part) in PROVEN.keys() | AGGREGATES.keys():
                with suppress(PartNotProvenError):
                    self.value(part)

    def condition(self, node: exp.Expr) -> str:
        """Translate a condition."""
        value = self.value(node)
        require(value.type in (BOOLEAN, NOTHING), f"{value.type.simpleString()} as a condition")
        return retype(value, BOOLEAN).sql

    def aggregate(self, node: exp.Expr, after: str) -> Value:
        """Translate an aggregate with its FILTER and OVER."""
        entry = AGGREGATES[kind_of(node)]
        check_arguments(node, entry.arguments)
        return entry.write(self, node, after)

    def report(self, node: exp.Expr, why: str) -> None:
        place = place_of(node)
        self.unproven[Unproven(name_of(node), place.line, place.column, why)] = None

    def _write(self, node: exp.Expr) -> Value:
        kind = kind_of(node)
        check_precedence(node)
        if kind in AGGREGATES:
            return self.aggregate(node, "")
        require(kind in PROVEN, "not on the list of what is proven to mean the same in DuckDB")
        check_arguments(node, PROVEN[kind].arguments)
        return PROVEN[kind].write(self, node)


def _check_length(node: exp.Expr, value: Value) -> Value:
    """Leave off what has grown too long, before what it is nested in multiplies it again."""
    is_short = len(value.sql) <= LONGEST or len(value.sql) <= GROWTH * len(node.sql())
    require(is_short, "nested so deep that its SQL would be too long")
    return value


def column_types(table: Table) -> dict[str, T.DataType]:
    """Spark's types of a table's columns, by names as the qualified statement has them."""
    return {column.name.lower(): spark_type(column) for column in table.columns}


def check_arguments(node: exp.Expr, known: frozenset[str]) -> None:
    """Leave off a node with an argument that its entry does not know."""
    others = sorted(name for name, value in node.args.items() if value not in (None, False, []) and name not in known)
    require(not others, f"with {', '.join(others)}")
