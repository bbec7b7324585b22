"""A statement's tree in the form that the analysis reads: fewer forms than a user may write, with the same meaning.

Only the tree changes; Spark runs the user's text. LIMIT and its like are then in a SELECT only, and chains of AND and
OR are no deeper than they must be.
"""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

_CUTS: Final = ("limit", "offset")
_ROW: Final = "rows"
_LONGEST_CHAIN: Final = 8


def normalize(tree: exp.Query) -> exp.Query:
    """The tree as parsed, in that form."""
    for chain in [*tree.find_all(exp.And, exp.Or)]:
        if type(chain.parent) is not type(chain):
            _balance(chain)
    # the innermost first
    for cut in reversed([*tree.find_all(exp.SetOperation, exp.Subquery)]):
        if any(cut.args.get(part) for part in _CUTS):
            tree = _wrap(tree, cut)
    return tree


def _balance(node: exp.Expr) -> None:
    """Make a long chain of AND or OR, which is as deep as it is long, a balanced tree."""
    parts = [*node.flatten(unnest=False)]
    if len(parts) > _LONGEST_CHAIN:
        balanced = _join(type(node), [part.pop() for part in parts])
        node.set("this", balanced.this)
        node.set("expression", balanced.expression)


def _join(kind: type[exp.Expr], parts: Sequence[exp.Expr]) -> exp.Expr:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return kind(this=_join(kind, parts[:middle]), expression=_join(kind, parts[middle:]))


def _wrap(tree: exp.Query, node: exp.Expr) -> exp.Query:
    """Write `(a UNION b) ORDER BY v LIMIT 3` as `SELECT * FROM (a UNION b) AS rows ORDER BY v LIMIT 3`."""
    inner = node.copy()
    outer = exp.Select(expressions=[exp.Star()])
    for part in ("order", *_CUTS, "with_"):
        outer.set(part, inner.args.get(part))
        inner.set(part, None)
    alias = exp.TableAlias(this=exp.to_identifier(_ROW))
    if isinstance(inner, exp.Subquery):
        name = inner.args.get("alias")
        inner.set("alias", None)
        source = exp.Subquery(this=inner.unnest(), alias=alias)
        whole: exp.Query = exp.Subquery(this=outer.from_(source, copy=False), alias=name)
        for part in ("joins", "laterals", "pivots", "sample"):
            whole.set(part, inner.args.get(part))
    else:
        whole = outer.from_(exp.Subquery(this=inner, alias=alias), copy=False)
    if node is tree:
        return whole
    node.replace(whole)
    return tree
