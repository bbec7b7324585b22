"""Windows of time: `window(at, '10 minutes', '5 minutes')` and `session_window(at, '5 minutes')`, as Spark means them.

The analysis reads a window of fixed length by its start, an expression of the row's time. Where windows overlap, a row
is in several: then the rows come from a UNION ALL with a branch for each, which gives the start as a column. Spark
itself runs the user's text. (Structured Streaming Programming Guide, "Types of time windows".)
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from cdc.views.statement.inlining import OF_USE

START: Final = "window_start"
"""`window_start(at, slide, offset, number)`: the start of the `number`th window before the last that has `at`."""
LATER: Final = "later"
"""`later(at, duration)`: so much later."""
_COLUMN: Final = "#window"
_NAMES: Final = ("window", "session_window")
_MAX_OVERLAPPING: Final = 60
_PART: Final = re.compile(r"(\d+)\s*(microsecond|millisecond|second|minute|hour|day|week)s?", re.IGNORECASE)
_MICROSECONDS: Final = {
    "microsecond": 1,
    "millisecond": 10**3,
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": 86400 * 10**6,
    "week": 7 * 86400 * 10**6,
}


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Windows of `size` that begin every `slide`, at `offset` from 1970; all in microseconds."""

    at: exp.Expr
    size: int
    slide: int
    offset: int

    @property
    def overlapping(self) -> int:
        """How many windows a moment may be in."""
        return -(-self.size // self.slide)


_TOO_LONG: Final = 2**62
"""With a time added, a BIGINT of microseconds has to hold it."""


def parse_duration(text: str) -> int | None:
    """Microseconds of `1 hour 30 minutes`, or None: months have no fixed length."""
    text = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE).strip()
    parts = [*_PART.finditer(text)]
    if not parts or _PART.sub("", text).strip():
        return None
    microseconds = sum(int(part[1]) * _MICROSECONDS[part[2].lower()] for part in parts)
    return microseconds if microseconds < _TOO_LONG else None


def write_duration(microseconds: int) -> str:
    """A duration as a user writes it, in its largest whole unit."""
    unit = next(unit for unit, size in reversed(_MICROSECONDS.items()) if microseconds % size == 0)
    unit = unit if microseconds else "second"
    count = microseconds // _MICROSECONDS[unit]
    return f"{count} {unit}{'' if count == 1 else 's'}"


def read_window(call: exp.Anonymous) -> TimeWindow | None:
    """The windows that a call of `window` names; None of `session_window`, or where its durations cannot be read."""
    if call.name.lower() != "window" or not call.expressions:
        return None
    at, *texts = call.expressions
    durations = [parse_duration(each.name) if each.is_string else None for each in texts]
    if not durations or None in durations or len(durations) > 3:
        return None
    size, slide, offset = [*filter(None, durations[:1]), *durations[1:], None, None][:3]
    return TimeWindow(at, size, slide or size, offset or 0) if size else None


def find_windows(query: exp.Select) -> list[exp.Anonymous]:
    """The calls of `window` and `session_window` in the query's own clauses."""
    calls = query.find_all(exp.Anonymous)
    return [call for call in calls if call.name.lower() in _NAMES and call.parent_select is query]


def expand_windows(tree: exp.Query) -> None:
    """Write the windows of all queries by expressions of the rows' times."""
    for query in [*tree.find_all(exp.Select)]:
        calls = find_windows(query)
        # Spark has an error for two different windows in one query
        if len({call.sql() for call in calls}) == 1:
            _expand(query, calls[0])


def _expand(query: exp.Select, call: exp.Anonymous) -> None:
    window = read_window(call)
    if window is None:
        _name_fields(query, call, lambda: call.copy(), _field_of(call))
        return
    if window.overlapping == 1:
        start: exp.Expr = _start(window, 0)
    elif (source := source_of(query, window.at)) and window.overlapping <= _MAX_OVERLAPPING:
        start = exp.column(exp.to_identifier(_COLUMN, quoted=True), table=source.alias_or_name)
        _multiply(source, window)
    else:
        return
    fields = {"start": start, "end": _later(start, window.size)}
    _name_fields(query, call, lambda: _struct(fields), lambda name: fields[name].copy(), start)
    # Spark leaves out rows without a time
    query.where(exp.Not(this=exp.Is(this=window.at.copy(), expression=exp.Null())), copy=False)


def _start(window: TimeWindow, number: int) -> exp.Expr:
    texts = [exp.Literal.string(write_duration(each)) for each in (window.slide, window.offset)]
    return exp.Anonymous(this=START, expressions=[window.at.copy(), *texts, exp.Literal.number(number)])


def _later(at: exp.Expr, microseconds: int) -> exp.Expr:
    return exp.Anonymous(this=LATER, expressions=[at.copy(), exp.Literal.string(write_duration(microseconds))])


def _struct(fields: Mapping[str, exp.Expr]) -> exp.Expr:
    named = [exp.PropertyEQ(this=exp.to_identifier(name), expression=each.copy()) for name, each in fields.items()]
    return exp.Struct(expressions=named)


def _field_of(call: exp.Anonymous) -> Callable[[str], exp.Expr]:
    return lambda name: exp.Dot(this=call.copy(), expression=exp.to_identifier(name))


def _name_fields(
    query: exp.Select,
    call: exp.Anonymous,
    whole: Callable[[], exp.Expr],
    field: Callable[[str], exp.Expr],
    group: exp.Expr | None = None,
) -> None:
    """Write `window`, `window.start` and `window.end`, and calls of it, as these expressions."""
    name, text = call.name.lower(), call.sql()
    for node in [*_own_nodes(query)]:
        if _is_field(node, name, text):
            _replace(node, field(node.name.lower()), node.name)
        elif isinstance(node, exp.Column) and not node.table and node.name.lower() == name:
            _replace(node, whole(), name)
        elif node.sql() == text and not isinstance(node.parent, exp.Dot):
            is_key = isinstance(node.parent, exp.Group) and group is not None
            _replace(node, group.copy() if is_key and group is not None else whole(), name)


def _is_field(node: exp.Expr, name: str, call: str) -> bool:
    if isinstance(node, exp.Dot):
        return bool(node.this.sql() == call)
    return isinstance(node, exp.Column) and node.table.lower() == name and node.name.lower() in ("start", "end")


def _own_nodes(query: exp.Select) -> Iterator[exp.Expr]:
    kinds = query.find_all(exp.Column, exp.Dot, exp.Anonymous)
    return (node for node in kinds if node.parent_select is query)


def _replace(node: exp.Expr, other: exp.Expr, name: str) -> None:
    # an output without a name of its own keeps the one that Spark gives it
    is_output = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
    node.replace(exp.alias_(other, name, quoted=True) if is_output else other)


def source_of(query: exp.Select, at: exp.Expr) -> exp.Expr | None:
    """The only table or subquery in FROM whose columns the time is made of."""
    names = {column.table for column in at.find_all(exp.Column)}
    first = query.args.get("from_")
    sources = [first.this, *(join.this for join in query.args.get("joins") or [])] if first else []
    found = [source for source in sources if source.alias_or_name in names or (names == {""} and len(sources) == 1)]
    return found[0] if len(found) == 1 and len(names) == 1 else None


def _multiply(source: exp.Expr, window: TimeWindow) -> None:
    """Give each row of a source once for every window that it is in, with the window's start."""
    branches = [_branch(source, window, number) for number in range(window.overlapping)]
    rows: exp.Query = branches[0]
    for branch in branches[1:]:
        rows = exp.union(rows, branch, distinct=False, copy=False)
    subquery = exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier(source.alias_or_name)))
    for part in OF_USE:
        subquery.set(part, source.args.get(part))
    source.replace(subquery)


def _branch(source: exp.Expr, window: TimeWindow, number: int) -> exp.Select:
    inner, start = source.copy(), _start(window, number)
    for part in OF_USE:
        inner.set(part, None)
    branch = exp.select("*", exp.alias_(start, _COLUMN, quoted=True)).from_(inner)
    if window.size % window.slide:
        # the earliest window may have ended
        branch = branch.where(exp.LT(this=window.at.copy(), expression=_later(start, window.size)))
    return branch
