"""Names of columns as Spark spells them: as the user wrote them, or as a table has them behind a star.

A qualified tree has all names in small letters.
"""

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, build_scope

_WRITTEN: Final = "written"
ColumnsOf = Callable[[exp.Table], Sequence[str]]
"""The columns of a table, as it spells them."""


def note_names(tree: exp.Query) -> None:
    """Keep with every name of a tree how it is written, before it is qualified."""
    for identifier in tree.find_all(exp.Identifier):
        identifier.meta[_WRITTEN] = identifier.name
    for alias in tree.find_all(exp.TableAlias):
        query = alias.parent.this if isinstance(alias.parent, exp.Subquery | exp.CTE) else None
        if alias.columns and isinstance(query, exp.Query):
            query.meta[_WRITTEN] = [name.name for name in alias.columns]


def spell(identifier: exp.Expr) -> str:
    """A name as it was written; as it is, if nobody wrote it."""
    return str(identifier.meta.get(_WRITTEN, identifier.name))


def spell_outputs(tree: exp.Query, columns_of: ColumnsOf) -> list[str | None]:
    """The names that Spark gives a query's columns; None for those that nobody named, or that are of two tables."""
    scope = build_scope(tree)
    return spell_columns(scope, columns_of) if scope else []


def spell_columns(scope: Scope, columns_of: ColumnsOf) -> list[str | None]:
    """As `spell_outputs`."""
    query = scope.expression
    if _WRITTEN in query.meta:
        # the names behind its alias, `u(x, y)`
        return [*query.meta[_WRITTEN]]
    if isinstance(query, exp.SetOperation):
        left = next(iter(scope.set_operation_scopes), None)
        return spell_columns(left, columns_of) if left else [None for _ in query.selects]
    return [_spell_output(scope, part, columns_of) for part in query.selects] if isinstance(query, exp.Query) else []


def _spell_output(scope: Scope, part: exp.Expr, columns_of: ColumnsOf) -> str | None:
    name, value = part.args.get("alias"), part.unalias()
    if isinstance(name, exp.Identifier) and _WRITTEN in name.meta:
        return spell(name)
    last = value.expression if isinstance(value, exp.Dot) else value.this if isinstance(value, exp.Column) else None
    if isinstance(last, exp.Identifier) and _WRITTEN in last.meta:
        return spell(last)
    return _spell_behind_star(scope, value, columns_of) if isinstance(value, exp.Column) else None


def _spell_behind_star(scope: Scope, column: exp.Column, columns_of: ColumnsOf) -> str | None:
    source = scope.sources.get(column.table)
    if isinstance(source, exp.Table):
        return next((name for name in columns_of(source) if name.lower() == column.name), None)
    if isinstance(source, Scope) and isinstance(source.expression, exp.Query):
        pairs = zip(source.expression.named_selects, spell_columns(source, columns_of), strict=True)
        return next((spelled for name, spelled in pairs if name == column.name), None)
    return None
