"""Expressions of a tree as texts, and what is in their queries."""

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from cdc.views.statement.tree.nodes import Nested

_WRITTEN: Final = "written table"


def note_table(identifier: exp.Identifier) -> None:
    """Keep how the user calls the source of a column."""
    identifier.meta[_WRITTEN] = identifier.name


def text_of(value: exp.Expr) -> str:
    """An expression in Spark's SQL: the same text for equal ones of one query."""
    return (_complete(value) if value.find(Nested) else value).sql(dialect="spark")


def write(value: exp.Expr) -> str:
    """An expression in Spark's SQL, with the user's names."""
    whole = _complete(value)
    for identifier in whole.find_all(exp.Identifier):
        identifier.set("this", identifier.meta.get(_WRITTEN, identifier.this))
    return whole.sql(dialect="spark")


def _complete(value: exp.Expr) -> exp.Expr:
    """An expression with its queries."""
    if isinstance(value, Nested):
        return _complete(value.query.node)
    whole = value.copy()
    while leaf := whole.find(Nested):
        leaf.replace(leaf.query.node.copy())
    return whole


def walk_within(node: exp.Expr) -> Iterator[exp.Expr]:
    """All parts of an expression, and of the queries in it."""
    for part in node.walk(bfs=False):
        yield part
        if isinstance(part, Nested):
            yield from walk_within(part.query.node)
