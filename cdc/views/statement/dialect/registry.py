"""The list: the kinds of expressions that are proven, and how each is written in DuckDB's SQL.

A kind is a node class of sqlglot, or the name of a function that sqlglot has no class for. An entry names the
arguments of the node that it reads; a node with any other is not proven. tests/spark/test_proven_functions.py has a
line with the proof for each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc.views.statement.dialect.values import Value
from cdc.views.statement.entrance.kinds import Kind

if TYPE_CHECKING:
    from cdc.views.statement.dialect.translator import Translator

Writer = Callable[["Translator", Any], Value]
"""Writes an expression; raises NotProvenError for arguments that the proof does not cover."""
AggregateWriter = Callable[["Translator", Any, str], Value]
"""The same of an aggregate; the third argument, its FILTER and OVER, is put after every call of one in DuckDB."""


@dataclass(frozen=True, slots=True)
class Entry:
    """`arguments`: the names of the node's arguments that the writer knows."""

    write: Writer
    arguments: frozenset[str]


@dataclass(frozen=True, slots=True)
class AggregateEntry:
    """As `Entry`, of an aggregate, which takes a FILTER and OVER."""

    write: AggregateWriter
    arguments: frozenset[str]


PROVEN: dict[Kind, Entry] = {}
AGGREGATES: dict[Kind, AggregateEntry] = {}


def proven(kind: Kind, *arguments: str) -> Callable[[Writer], Writer]:
    """Put an expression on the list."""

    def enter(write: Writer) -> Writer:
        PROVEN[kind] = Entry(write, frozenset(arguments or ("this", "expressions")))
        return write

    return enter


def proven_aggregate(kind: Kind, *arguments: str) -> Callable[[AggregateWriter], AggregateWriter]:
    """Put an aggregate on the list."""

    def enter(write: AggregateWriter) -> AggregateWriter:
        AGGREGATES[kind] = AggregateEntry(write, frozenset(arguments or ("this", "expressions")))
        return write

    return enter
