"""A star in a function, `struct(o.*)`, written out as the columns that it stands for, where these are certain.

A star among the outputs is written out by sqlglot. Fields of a struct get the columns' names.
"""

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from cdc.views.statement.tree.nodes import Derived, OpaqueQuery, Scan, Source
from cdc.views.statement.tree.spelling import spell_columns


def expand_stars(query: exp.Select, sources: Mapping[str, Source]) -> None:
    """Write out the stars of one query. `sources`: those in FROM that are shown, by their names in it."""
    if _merges_columns(query):
        return
    for star in [*find_stars(query)]:
        columns, holder = _columns_of(star, sources), _holder(star)
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


def _holder(star: exp.Star) -> exp.Expr:
    """The node that stands for the columns: `o.*` is a column of the name star."""
    return star.parent if isinstance(star.parent, exp.Column) else star


def _merges_columns(query: exp.Select) -> bool:
    """Whether a star has columns that belong to two tables: those of USING."""
    return any(join.args.get("using") or join.meta.get("joined by names") for join in query.args.get("joins") or [])


def _columns_of(star: exp.Star, sources: Mapping[str, Source]) -> list[tuple[str | None, exp.Column]] | None:
    holder = _holder(star)
    if any(value for value in star.args.values()) or holder.args.get("db"):
        return None
    found = list[tuple[str | None, exp.Column]]()
    for name in [holder.table] if isinstance(holder, exp.Column) else sources:
        columns = _outputs_of(sources.get(name))
        if columns is None:
            return None
        found += [(spelled, exp.column(column, table=name)) for column, spelled in columns]
    return found


def _outputs_of(source: Source | None) -> list[tuple[str, str | None]] | None:
    """The columns of a source, and as Spark spells them."""
    match source:
        case Scan():
            return [(column.lower(), column) for column in source.table.column_names]
        case Derived(query=query) if not isinstance(query, OpaqueQuery):
            names = [output.name for output in query.outputs]
            is_certain = "*" not in names and len({*names}) == len(names)
            return [*zip(names, spell_columns(query), strict=True)] if is_certain else None
    return None
