"""The report as tables in Markdown, for pasting."""

from collections.abc import Iterator, Sequence

from tests.bench.goal import Limit
from tests.bench.record import Record, verdicts
from tests.bench.report import numbers


def summary(records: Sequence[Record]) -> str:
    """Every limit with what was reached, then every measure of every goal."""
    lines = [*_limits(records)]
    for record in records:
        lines += ["", f"### {record.goal}: {record.title}", "", *_measures(record)]
        lines += [f"- {trouble}" for trouble in record.troubles]
    return "\n".join(lines) + "\n"


def _limits(records: Sequence[Record]) -> Iterator[str]:
    yield "| goal | scale, pairs | limit | reached | beside | verdict |"
    yield "|---|---|---|---|---|---|"
    for record in records:
        for found in verdicts(record):
            limit = f"{found.limit.side}: {found.measure.title} {numbers.bound(found.limit, found.measure)}"
            cells = (
                record.goal,
                numbers.pairs(record),
                limit,
                numbers.spread(found.reached),
                beside(record, found.limit),
                numbers.verdict(found, record.scale),
            )
            yield _line(cells)


def beside(record: Record, limit: Limit) -> str:
    """What the other sides reached; of a ratio, what all sides reached."""
    own = None if limit.per else limit.side
    others = [(side, record.spread(side, limit.measure)) for side in record.sides if side != own]
    return "; ".join(f"{side} {numbers.spread(found)}" for side, found in others if found) or numbers.NOTHING


def _measures(record: Record) -> Iterator[str]:
    yield _line(("measure", *record.sides, "ratios, pair by pair"))
    yield _line("---" for _ in range(len(record.sides) + 2))
    for measure in record.measures:
        values = [numbers.spread(record.spread(side, measure.name)) for side in record.sides]
        if any(value != numbers.NOTHING for value in values):
            yield _line((numbers.with_unit(measure), *values, "; ".join(numbers.ratios(record, measure))))


def _line(cells: "Iterator[str] | Sequence[str]") -> str:
    return f"| {' | '.join(cells)} |"
