"""USING and NATURAL as Spark means them: the column that a chain of such joins has gone on with.

sqlglot joins each further table by the first one's column, and names the first of all columns that is not null. After
`a RIGHT JOIN b USING (id)` the column is `b.id`, and a further join is by that.
"""

from collections.abc import Iterator, Mapping

from sqlglot import exp

_MARK = "joined by names"
Merged = dict[str, exp.Expr]
"""By name, what a column that several tables have is after some joins."""


def mark_joins(tree: exp.Query) -> None:
    """Mark the joins by names: once the names of columns are known, they look like others."""
    for join in tree.find_all(exp.Join):
        if join.args.get("using") or join.method == "NATURAL":
            join.meta[_MARK] = True


def correct_joins(tree: exp.Query) -> None:
    """Write the marked joins, and the columns that they share, as Spark means them."""
    for query in tree.find_all(exp.Select):
        merged: Merged = {}
        for join in query.args.get("joins") or []:
            on = join.args.get("on")
            if on and join.meta.get(_MARK):
                _merge(join, merged)
            elif on:
                _name_shared(query, on, merged)
        for part in ("expressions", "where", "group", "having", "qualify", "order", "windows", "laterals"):
            value = query.args.get(part) or []
            for node in value if isinstance(value, list) else [value]:
                _name_shared(query, node, merged)


def _merge(join: exp.Join, merged: Merged) -> None:
    on = join.args["on"]
    for equality in [*on.flatten()] if isinstance(on, exp.And) else [on]:
        right = equality.expression
        first = next(equality.this.find_all(exp.Column))
        left = merged.get(right.name, first).copy()
        equality.this.replace(left.copy())
        merged[right.name] = _after(join, left, right)


def _after(join: exp.Join, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    match join.side, join.kind:
        case "RIGHT", _:
            return right.copy()
        case "FULL", _:
            parts = [left.this, *left.expressions] if isinstance(left, exp.Coalesce) else [left]
            return exp.func("coalesce", *parts, right, copy=True)
        case _:
            return left


def _name_shared(query: exp.Select, node: exp.Expr, merged: Mapping[str, exp.Expr]) -> None:
    for shared in [*_find_shared(node, merged)]:
        if shared.parent_select is query:
            shared.replace(merged[shared.this.name].copy())


def _find_shared(node: exp.Expr, merged: Mapping[str, exp.Expr]) -> Iterator[exp.Coalesce]:
    """The expressions that stand for a column of several tables: sqlglot's, which are at no place of the text."""
    for each in node.find_all(exp.Coalesce):
        parts = [each.this, *each.expressions]
        is_made = all(isinstance(part, exp.Column) and "line" not in part.this.meta for part in parts)
        if is_made and {part.name for part in parts} <= merged.keys() and len({part.name for part in parts}) == 1:
            yield each
