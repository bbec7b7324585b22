"""What of a statement is let in: each part is followed by the analysis, or makes the view whole, or is refused."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from cdc.views.statement.entrance.allowed_nodes import find_unknown_argument
from cdc.views.statement.entrance.functions import BY_ORDER, BY_TIME, REFUSED, is_pure
from cdc.views.statement.entrance.kinds import kind_of, name_of, place_of

_SPECIAL: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""Special values of typed literals (Spark's "Datetime literals"): DATE'today'."""
_TIMES: Final = frozenset(["DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"])
_VARIABLE: Final = re.compile(r"\$\{[^}\n]*\}")
_IN_WINDOWS: Final = (exp.First, exp.Last, exp.FirstValue, exp.LastValue)
_OLDER_VERSION: Final = "a view reads its tables at their cut"
_FORBIDDEN: Final[dict[type[exp.Expr], tuple[str, str]]] = {
    exp.TableSample: ("tablesample", "it gives other rows at every evaluation"),
    exp.QueryTransform: ("transform", "it runs a program outside of SQL"),
    exp.Version: ("as of", _OLDER_VERSION),
    exp.HistoricalData: ("as of", _OLDER_VERSION),
    exp.Aliases: ("as (…)", "write it as LATERAL VIEW, with names for its columns"),
    exp.Placeholder: ("a parameter", "nobody gives it a value"),
    exp.Parameter: ("a parameter", "nobody gives it a value"),
    exp.SessionParameter: ("a parameter", "nobody gives it a value"),
    exp.Into: ("into", "a view only reads"),
    exp.Lock: ("for update", "a view only reads"),
}


@dataclass(frozen=True, slots=True)
class Refused:
    """A part of a statement: its place in the user's SQL (0 where it is not known), and why it is not let in."""

    name: str
    line: int
    column: int
    why: str

    @property
    def where(self) -> str:
        return f" (line {self.line}, column {self.column})" if self.line else ""


@dataclass(frozen=True, slots=True)
class Admission:
    """`refused`: parts that no view may have. `opaque`: parts that the analysis does not follow."""

    refused: list[Refused] = field(default_factory=list)
    opaque: list[Refused] = field(default_factory=list)


def admit(tree: exp.Expr) -> Admission:
    """Look at every part of a statement, as it was parsed or qualified."""
    found = Admission()
    for node in tree.walk(bfs=False):
        if why := _forbid(node):
            found.refused.append(refuse(node, *why))
        elif why := _leave(node):
            found.opaque.append(refuse(node, *why))
    return found


def find_variables(sql: str) -> Iterator[Refused]:
    """Spark puts values of its session and of the environment for `${env:HOME}`, in texts, too."""
    for found in _VARIABLE.finditer(sql):
        before = sql[: found.start()]
        line, column = before.count("\n") + 1, found.start() - (before.rfind("\n") + 1) + 1
        yield Refused(found[0], line, column, "it depends on the session; write it as text, '$' || '{…}'")


def refuse(node: exp.Expr, name: str, why: str) -> Refused:
    place = place_of(node)
    return Refused(name or name_of(node), place.line, place.column, why)


def _forbid(node: exp.Expr) -> tuple[str, str] | None:
    if type(node) in _FORBIDDEN:
        return _FORBIDDEN[type(node)]
    if why := _explain_function(node):
        return "", why
    if isinstance(node, exp.Limit | exp.Offset | exp.Fetch):
        return None if _order_of(node.parent) else ("", BY_ORDER)
    if isinstance(node, exp.Cast) and _is_special(node):
        return node.this.name, BY_TIME
    if isinstance(node, exp.Select) and _names_pivoted(node):
        return "*", "write the columns that PIVOT or UNPIVOT gives"
    return None


def _explain_function(node: exp.Expr) -> str | None:
    why = REFUSED.get(kind_of(node)) if isinstance(node, exp.Func) else None
    why = BY_ORDER if isinstance(node, exp.FirstValue | exp.LastValue) else why
    return why if why and not is_ordered(node) else None


def _order_of(query: exp.Expr | None) -> object:
    return query.args.get("order") if query else None


def is_ordered(node: exp.Expr) -> bool:
    """A window with an order gives `first` one."""
    window = node.find_ancestor(exp.Window, exp.Select)
    return isinstance(node, _IN_WINDOWS) and isinstance(window, exp.Window) and bool(window.args.get("order"))


def _is_special(cast: exp.Cast) -> bool:
    is_time = cast.to.this.name in _TIMES if isinstance(cast.to, exp.DataType) else False
    return is_time and cast.this.is_string and bool(_SPECIAL.match(cast.this.name))


def _names_pivoted(query: exp.Select) -> bool:
    """Whether a star stands for columns of a PIVOT, whose names only Spark knows."""
    stars: Iterable[exp.Expr] = (part for part in query.expressions if part.is_star)
    first, joins = query.args.get("from_"), query.args.get("joins") or []
    sources = [*([first.this] if first else []), *(join.this for join in joins)]
    return any(source.args.get("pivots") for source in sources if isinstance(source, exp.Expr)) and any(stars)


def _leave(node: exp.Expr) -> tuple[str, str] | None:
    # EXISTS, AND and OR count as functions for sqlglot
    if isinstance(node, exp.Func):
        return None if is_pure(node) or is_ordered(node) else ("", "its meaning is not followed")
    unknown = find_unknown_argument(node)
    if unknown is None:
        return ("lateral", "a subquery for each row is not followed") if _is_lateral_query(node) else None
    return "", f"its {unknown.strip('_')} is not followed" if unknown else "it is not followed"


def _is_lateral_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Lateral) and not node.args.get("view")
