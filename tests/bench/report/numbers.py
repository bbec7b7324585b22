"""Numbers, spreads and limits as a reader wants them."""

from tests.bench.arithmetic import Spread
from tests.bench.goal import Limit, Measure, Scale
from tests.bench.record import Record, Verdict

NOTHING = "–"  # noqa: RUF001 - a dash as tables have it


def number(value: float) -> str:
    """Three significant digits, thousands apart; whole numbers as they are."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3f}"


def plain(value: float) -> str:
    """As it was written down: limits and the marks of an axis."""
    return f"{value:,.10g}"


def spread(found: Spread | None) -> str:
    """The median, and in brackets least and most where there are several."""
    if found is None:
        return NOTHING
    if found.count == 1:
        return number(found.median)
    return f"{number(found.median)} [{number(found.least)} … {number(found.most)}]"


def with_unit(measure: Measure) -> str:
    """A measure's title with its unit."""
    return f"{measure.title}, {measure.unit}" if measure.unit else measure.title


def bound(limit: Limit, measure: Measure) -> str:
    """`≤ 0.7 s`, or `≥ 0.4 of stock`."""
    sign = "≥" if measure.more_is_better else "≤"
    unit = f" of {limit.per}" if limit.per else f" {measure.unit}"
    return f"{sign} {plain(limit.bound)}{unit}".rstrip()


def verdict(found: Verdict, scale: str) -> str:
    """In a few words; limits are about the full scale, and another one only hints."""
    word = {True: "met", False: "missed", None: "no valid run"}[found.met]
    return word if scale == Scale.FULL or found.met is None else f"{word} at {scale} scale"


def pairs(record: Record) -> str:
    """`small scale, 5 pairs`."""
    count = len({run.pair for run in record.runs})
    return f"{record.scale} scale, {count} pair{'s' if count > 1 else ''}"


def ratios(record: Record, measure: Measure) -> list[str]:
    """One side by another, pair by pair, for each pair of sides that the goal divides."""
    found = [(side, per, record.ratio(measure.name, side, per)) for side, per in record.divided]
    return [f"{side} / {per}: {spread(each)}" for side, per, each in found if each]
