"""The starts and ends of time windows (`views.statement.time_windows`), in microseconds of UTC as in Spark."""

from sqlglot import exp

from cdc.views.statement.dialect.expressions.literals import text_of, whole_number
from cdc.views.statement.dialect.registry import proven
from cdc.views.statement.dialect.translator import Translator
from cdc.views.statement.dialect.types import is_moment
from cdc.views.statement.dialect.values import Value, require
from cdc.views.statement.time_windows import LATER, START, parse_duration


@proven(START)
def write_start(t: Translator, node: exp.Anonymous) -> Value:
    """`window(at, ...).start`: of a timestamp."""
    time, slide_text, offset_text, number = node.expressions
    at, slide, offset = t.value(time), _duration(slide_text), _duration(offset_text)
    require(is_moment(at.type), f"of {at.type.simpleString()}")
    start = f"spark_window_start({at.sql}, {slide}, {offset})"
    return Value(f"make_timestamp({start} - {whole_number(number) * slide})", at.type)


@proven(LATER)
def write_later(t: Translator, node: exp.Anonymous) -> Value:
    """`window(at, ...).end`."""
    time, duration = node.expressions
    at = t.value(time)
    return Value(f"({at.sql} + to_microseconds({_duration(duration)}))", at.type)


def _duration(node: exp.Expr) -> int:
    microseconds = parse_duration(text_of(node))
    require(microseconds is not None, "a duration that cannot be read")
    assert microseconds is not None
    return microseconds
