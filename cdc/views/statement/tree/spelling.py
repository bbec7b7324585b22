"""Names of columns as Spark spells them: as the user wrote them, or as a table has them behind a star.

A qualified statement has all names in small letters.
"""

from typing import Final

from sqlglot import exp

from cdc.views.statement.tree.nodes import Derived, Output, Query, Scan, Select, SetOperation, Source

_WRITTEN: Final = "written"


def note_names(tree: exp.Query) -> None:
    """Keep with every name of a parsed statement how it is written, before it is qualified."""
    for identifier in tree.find_all(exp.Identifier):
        identifier.meta[_WRITTEN] = identifier.name
    for alias in tree.find_all(exp.TableAlias):
        query = alias.parent.this if isinstance(alias.parent, exp.Subquery | exp.CTE) else None
        if alias.columns and isinstance(query, exp.Query):
            query.meta[_WRITTEN] = [name.name for name in alias.columns]


def spell(identifier: exp.Expr) -> str:
    """A name as it was written; as it is, if nobody wrote it."""
    return str(identifier.meta.get(_WRITTEN, identifier.name))


def name_output(part: exp.Expr) -> str | None:
    """The name of an output, in lower case; None where the user gave it none, and Spark calls it as it likes."""
    name = part.args.get("alias")
    # qualified, every output has an alias; those of the user have a place in the text
    is_named = isinstance(part.unalias(), exp.Column) or (isinstance(name, exp.Identifier) and "line" in name.meta)
    return part.alias_or_name.lower() if is_named else None


def spell_columns(query: Query) -> list[str | None]:
    """The names that Spark gives a query's columns; None for those that nobody named, or that are of two tables."""
    if _WRITTEN in query.node.meta:
        # the names behind its alias, `u(x, y)`
        return [*query.node.meta[_WRITTEN]]
    if isinstance(query, SetOperation):
        return spell_columns(query.left)
    sources = {source.name: source for source in query.sources} if isinstance(query, Select) else {}
    return [_spell_output(output, sources) for output in query.outputs]


def _spell_output(output: Output, sources: dict[str, Source]) -> str | None:
    name, value = output.node.args.get("alias"), output.value
    if isinstance(name, exp.Identifier) and _WRITTEN in name.meta:
        return spell(name)
    last = value.expression if isinstance(value, exp.Dot) else value.this if isinstance(value, exp.Column) else None
    if isinstance(last, exp.Identifier) and _WRITTEN in last.meta:
        return spell(last)
    return _spell_behind_star(value, sources.get(value.table)) if isinstance(value, exp.Column) else None


def _spell_behind_star(column: exp.Column, source: Source | None) -> str | None:
    if isinstance(source, Scan):
        return next((name for name in source.table.column_names if name.lower() == column.name), None)
    if isinstance(source, Derived):
        pairs = zip((output.name for output in source.query.outputs), spell_columns(source.query), strict=True)
        return next((spelled for name, spelled in pairs if name == column.name), None)
    return None
