"""What no view may have: expressions that give another result each time they are computed."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from cdc.core.errors import ConfigurationError
from cdc.views.statement.dialect.places import place_of
from cdc.views.statement.dialect.registry import kind_of, name_of
from cdc.views.statement.statement import Statement

_BY_CHANCE = "it gives another value at every evaluation"
_BY_TIME = "it depends on when the view is computed"
_BY_PLACE = "it depends on where and how the rows are read"
_BY_ORDER = "it depends on the order of the rows, and they have none"
_BY_SESSION = "it depends on the session"

REFUSED: dict[type[exp.Expr] | str, str] = {
    **dict.fromkeys((exp.Rand, exp.Randn, exp.Uuid, exp.Shuffle, exp.TableSample), _BY_CHANCE),
    **dict.fromkeys(("random", "randstr", "uniform"), _BY_CHANCE),
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Localtimestamp), _BY_TIME),
    "now": _BY_TIME,
    **dict.fromkeys(("monotonically_increasing_id", "spark_partition_id"), _BY_PLACE),
    **dict.fromkeys(("input_file_name", "input_file_block_start", "input_file_block_length"), _BY_PLACE),
    **dict.fromkeys((exp.CurrentUser, exp.SessionUser, exp.CurrentSchema, exp.CurrentCatalog), _BY_SESSION),
    **dict.fromkeys((exp.CurrentDatabase, exp.CurrentTimezone, "user", "version"), _BY_SESSION),
    **dict.fromkeys((exp.First, exp.Last, exp.AnyValue, exp.ApproxQuantile, exp.ApproxTopK, exp.Mode), _BY_ORDER),
    **dict.fromkeys(("percentile_approx", "approx_percentile", "histogram_numeric"), _BY_ORDER),
}
"""Why each is refused."""
_IN_WINDOWS = (exp.First, exp.Last, exp.FirstValue, exp.LastValue)


@dataclass(frozen=True, slots=True)
class Refused:
    """An expression that is not deterministic: its place in the user's SQL (0 where it is not known), and why."""

    name: str
    line: int
    column: int
    why: str


def check_deterministic(view: str, statement: Statement) -> None:
    """Raise ConfigurationError for an expression that may give another result when it is computed again."""
    for refused in find_refused(statement):
        where = f" (line {refused.line}, column {refused.column})" if refused.line else ""
        raise ConfigurationError(f"views.{view}: {refused.name} is refused{where}: {refused.why}", "correct its sql")


def find_refused(statement: Statement) -> list[Refused]:
    """The expressions for which a statement is refused as a view."""
    return [_refuse(node, why) for node, why in _find(statement.tree)]


def _find(tree: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    for node in tree.walk(bfs=False):
        why = REFUSED.get(kind_of(node)) or _explain(node)
        if why and not _is_ordered(node):
            yield node, why


def _explain(node: exp.Expr) -> str | None:
    if isinstance(node, exp.FirstValue | exp.LastValue):
        return _BY_ORDER
    if isinstance(node, exp.Limit | exp.Offset | exp.Fetch):
        query = node.parent
        return _BY_ORDER if query and not query.args.get("order") else None
    return None


def _is_ordered(node: exp.Expr) -> bool:
    """A window with an order gives `first` one."""
    window = node.find_ancestor(exp.Window, exp.Select)
    return isinstance(node, _IN_WINDOWS) and isinstance(window, exp.Window) and bool(window.args.get("order"))


def _refuse(node: exp.Expr, why: str) -> Refused:
    place = place_of(node)
    return Refused(name_of(node), place.line, place.column, why)
