"""Translates the expressions of a statement to DuckDB's SQL, and reports those that are not on the list."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as T
from sqlglot import exp

from cdc.columns.types.spark_types import spark_type
from cdc.core.table import Table, TableName
from cdc.views.statement.dialect.places import place_of
from cdc.views.statement.dialect.precedence import check_precedence
from cdc.views.statement.dialect.registry import AGGREGATES, PROVEN, AggregateEntry, kind_of, name_of
from cdc.views.statement.dialect.types import BOOLEAN, NOTHING
from cdc.views.statement.dialect.values import NotProvenError, PartNotProvenError, Unproven, Value, require, retype

LONGEST: Final = 20_000
"""Of the SQL of one expression, in characters. Some functions write their argument several times, and what is nested
grows exponentially: at 12,000, DuckDB plans as long as Spark computes."""
GROWTH: Final = 20
"""How often an expression may be longer in DuckDB than in the statement: a list of many literals may be long."""


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """What a name in FROM gives: its columns' types, and columns that are unique in it; none if that is not known."""

    columns: Mapping[str, T.DataType]
    unique: frozenset[str] | None


class Translator:
    """Translates the parts of one statement. `unproven` has all that was found so far.

    `names`: of the tables in DuckDB. `read`: the columns that these have there.
    """

    def __init__(
        self,
        tables: Mapping[TableName, Table],
        names: Mapping[TableName, str],
        read: Mapping[TableName, Collection[str]],
    ) -> None:
        self.tables = tables
        self.names = names
        self.read = read
        self.unproven: list[Unproven] = []
        self._folded = {str(name).lower(): name for name in tables}
        self._done: dict[int, Value | None] = {}
        # names in FROM, of the outermost query first
        self._sources: list[dict[str, SourceColumns]] = []

    @contextmanager
    def sources(self, found: dict[str, SourceColumns]) -> Iterator[None]:
        """Names in FROM, for the expressions of a query and of those in it."""
        self._sources.append(found)
        try:
            yield
        finally:
            self._sources.pop()

    @property
    def own_sources(self) -> Mapping[str, SourceColumns]:
        """The names in FROM of the query itself."""
        return self._sources[-1]

    def find_table(self, written: TableName) -> TableName:
        """A table by its name in the qualified statement, which has small letters only."""
        return self._folded[str(written).lower()]

    def type_of_column(self, source: str, name: str) -> T.DataType:
        for sources in reversed(self._sources):
            if source in sources:
                columns = sources[source].columns
                require(name in columns, f"no column {name}")
                return columns[name]
        raise NotProvenError(f"no table {source}")

    def value(self, node: exp.Expr) -> Value:
        """Translate an expression; raises PartNotProvenError after it was reported."""
        if id(node) not in self._done:
            self._done[id(node)] = self._try(node)
        found = self._done[id(node)]
        if found is None:
            raise PartNotProvenError
        return found

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
        self.unproven.append(Unproven(name_of(node), place.line, place.column, why))

    def _try(self, node: exp.Expr) -> Value | None:
        try:
            return _check_length(node, self._write(node))
        except NotProvenError as error:
            self.report(node, str(error))
        except PartNotProvenError:
            pass
        except (LookupError, AttributeError, TypeError, ValueError, AssertionError, StopIteration):
            # more arguments than its proof has seen, or fewer: Spark says what it thinks of them
            self.report(node, "with arguments that nobody has tried")
        # report what its other parts have, too
        for part in node.iter_expressions():
            if id(part) not in self._done and kind_of(part) in PROVEN.keys() | AGGREGATES.keys():
                self._done[id(part)] = self._try(part)
        return None

    def _write(self, node: exp.Expr) -> Value:
        kind = kind_of(node)
        check_precedence(node)
        entry: AggregateEntry | None = AGGREGATES.get(kind)
        if entry:
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
