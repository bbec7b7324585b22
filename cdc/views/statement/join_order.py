"""In which order the names in FROM are joined."""

from sqlglot import exp


def joins_from_left(query: exp.Expr) -> bool:
    """Is each join between all that is named before it and one more name?

    Not in `a LEFT JOIN (b JOIN c ON ...) ON ...`, nor in `a, b RIGHT JOIN c ON ...`, where `a` stands alone. sqlglot
    reads the comma as CROSS JOIN, so neither is taken.
    """
    first, joins = query.args.get("from_"), query.args.get("joins") or []
    named = [first.this] if first else []
    if any(isinstance(each, exp.Expr) and _is_group(each) for each in [*named, *(join.this for join in joins)]):
        return False
    crossed = [at for at, join in enumerate(joins) if join.kind == "CROSS"]
    return not any(join.side in ("RIGHT", "FULL") for join in joins[min(crossed, default=len(joins)) :])


def _is_group(named: exp.Expr) -> bool:
    return bool(named.args.get("joins")) or (isinstance(named, exp.Subquery) and isinstance(named.this, exp.Table))
