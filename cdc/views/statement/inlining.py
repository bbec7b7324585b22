"""Common table expressions, inlined: every use of a table is then a node of its own."""

from typing import Final

from sqlglot import exp

OF_USE: Final = ("joins", "laterals", "pivots", "sample")
"""What a place in FROM may have besides a name."""

MOST_COPIED: Final = 20_000
"""Nodes of common table expressions, written out: of thirteen that name the one before twice, 8,192 copies are made."""


class TooManyCopiesError(Exception):
    """The common table expressions of a statement name each other so often that nobody could analyse it written out."""


def wrap_renamed(tree: exp.Query) -> None:
    """Write `FROM t AS u(x, y)` as `FROM (SELECT * FROM t) AS u(x, y)`: names of columns are read of queries only."""
    for table in [*tree.find_all(exp.Table)]:
        if table.alias_column_names:
            alias = table.args["alias"].pop()
            inner = table.copy()
            for part in OF_USE:
                inner.set(part, None)
            table.replace(_with_parts(exp.select("*").from_(inner).subquery(), alias, table))


def inline(tree: exp.Query) -> exp.Query:
    """Put a copy of each common table expression where it is named. Raises TooManyCopiesError."""
    copied = 0
    # the innermost first: a name means the nearest definition around it
    for query in reversed([*tree.find_all(exp.Query)]):
        with_ = query.args.get("with_")
        if not with_:
            continue
        known = dict[str, exp.Query]()
        for cte in with_.expressions:
            copied += _replace(cte.this, known, MOST_COPIED - copied)
            known[cte.alias] = cte.this
        with_.pop()
        copied += _replace(query, known, MOST_COPIED - copied)
    return tree


def _replace(query: exp.Query, known: dict[str, exp.Query], most: int) -> int:
    """Put in copies; returns how many nodes these have."""
    copied = 0
    for table in [*query.find_all(exp.Table)]:
        if not table.db and table.name in known:
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name))
            copied += sum(1 for _ in known[table.name].walk())
            if copied > most:
                raise TooManyCopiesError
            table.replace(_with_parts(known[table.name].copy().subquery(), alias, table))
    return copied


def _with_parts(query: exp.Subquery, alias: exp.Expr, table: exp.Table) -> exp.Subquery:
    query.set("alias", alias)
    for part in OF_USE:
        query.set(part, table.args.get(part))
    return query
