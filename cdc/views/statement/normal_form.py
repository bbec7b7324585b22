"""A statement's tree in the form that the analysis reads: fewer forms than a user may write, with the same meaning.

Only the tree changes; Spark runs the user's text. LIMIT and its like are then in a SELECT only, chains of
AND and OR are no deeper than they must be, and a star in a function is written out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from cdc.views.statement.written_names import ColumnsOf, spell_columns

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


def expand_stars(tree: exp.Query, columns_of: ColumnsOf) -> None:
    """Write a star in a function, `struct(o.*)`, as the columns that it stands for, where these are certain.

    The tree is qualified: a star among the outputs is written out already. Fields of a struct get the columns' names.
    """
    for scope in traverse_scope(tree):
        query = scope.expression
        if isinstance(query, exp.Select) and not _merges_columns(query):
            for star in [*find_stars(query)]:
                columns = _columns_of(scope, star, columns_of)
                holder = _holder(star)
                if columns is not None and holder.parent is not None and holder.arg_key == "expressions":
                    _replace_star(holder, columns)


def _replace_star(holder: exp.Expr, columns: Sequence[tuple[str | None, exp.Column]]) -> None:
    if not isinstance(holder.parent, exp.Struct):
        holder.replace([column for _, column in columns])
    elif all(name is not None for name, _ in columns):
        holder.replace([exp.PropertyEQ(this=exp.to_identifier(name), expression=column) for name, column in columns])


def find_stars(query: exp.Select) -> Iterator[exp.Star]:
    """The stars in expressions of a query that stand for columns: not that of `count(*)`."""
    for star in query.find_all(exp.Star):
        holder = _holder(star)
        if star.parent_select is query and not (isinstance(holder.parent, exp.Count) and holder is star):
            yield star


def find_all_stars(tree: exp.Query) -> Iterator[exp.Star]:
    """The stars that are left, of all queries."""
    for query in tree.find_all(exp.Select):
        yield from find_stars(query)


def _holder(star: exp.Star) -> exp.Expr:
    """The node that stands for the columns: `o.*` is a column of the name star."""
    return star.parent if isinstance(star.parent, exp.Column) else star


def _merges_columns(query: exp.Select) -> bool:
    """Whether a star has columns that belong to two tables: those of USING."""
    return any(join.args.get("using") or join.meta.get("joined by names") for join in query.args.get("joins") or [])


def _columns_of(scope: Scope, star: exp.Star, tables: ColumnsOf) -> list[tuple[str | None, exp.Column]] | None:
    if any(value for value in star.args.values()):
        return None
    holder, names = _holder(star), _names_in_from(scope.expression)
    wanted = [holder.table] if isinstance(holder, exp.Column) else names
    if holder is not star and holder.args.get("db"):
        return None
    found = list[tuple[str | None, exp.Column]]()
    for name in wanted:
        columns = _outputs_of(scope.sources, name, tables)
        if columns is None or name not in names:
            return None
        found += [(spelled, exp.column(column, table=name)) for column, spelled in columns]
    return found


def _names_in_from(query: exp.Expr) -> list[str]:
    first, joins = query.args.get("from_"), query.args.get("joins") or []
    shown = [join.this.alias_or_name for join in joins if join.kind not in ("SEMI", "ANTI")]
    return [*([first.this.alias_or_name] if first else []), *shown]


def _outputs_of(sources: Mapping[str, object], name: str, tables: ColumnsOf) -> list[tuple[str, str | None]] | None:
    """The columns of a name in FROM, and as Spark spells them."""
    source = sources.get(name)
    if isinstance(source, exp.Table) and not source.args.get("pivots"):
        return [(column.lower(), column) for column in tables(source)]
    if isinstance(source, Scope) and isinstance(source.expression, exp.Query):
        names = source.expression.named_selects
        is_certain = "*" not in names and len({*names}) == len(names)
        return [*zip(names, spell_columns(source, tables), strict=True)] if is_certain else None
    return None
