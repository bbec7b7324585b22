"""The last six hours in points of a minute, for charts: each document adds to the series of the one before; no I/O."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar

from cdc.run.status.document import Document, Percentiles, Series

STEP_SECONDS: Final = 60
MOST: Final = 360
Number = TypeVar("Number", bound=float)


def add_points(document: Document, before: Document | None) -> Series:
    """The series with a point for each whole minute that has passed; None where nobody has looked."""
    at = document.at.replace(second=0, microsecond=0)
    series = before.series if before and before.series else Series(start=at, step_seconds=STEP_SECONDS)
    missing = round((at - series.start).total_seconds()) // STEP_SECONDS + 1 - len(series.slot_bytes)
    if missing < 1:
        return series
    if missing > MOST:
        series, missing = Series(start=at, step_seconds=STEP_SECONDS), 1
    drop = max(len(series.slot_bytes) + missing - MOST, 0)

    def extend(points: Sequence[Number | None], value: Number | None) -> list[Number | None]:
        # a follower may be new: its past is not known
        padded: list[Number | None] = [*[None] * (len(series.slot_bytes) - len(points)), *points]
        return [*padded, *[None] * (missing - 1), value][drop:]

    return Series(
        start=series.start + timedelta(seconds=drop * STEP_SECONDS),
        step_seconds=STEP_SECONDS,
        freshness={
            name: Percentiles(
                p50=extend(_points(series, name).p50, follower.p50_seconds),
                p99=extend(_points(series, name).p99, follower.p99_seconds),
            )
            for name, follower in document.followers.items()
        },
        slot_bytes=extend(series.slot_bytes, document.slot.retained_bytes if document.slot else None),
        changes_per_minute={"arrived": extend(series.changes_per_minute.get("arrived", ()), _arrived(document))},
    )


def _points(series: Series, name: str) -> Percentiles:
    return series.freshness.get(name, Percentiles())


def _arrived(document: Document) -> float | None:
    rates = [table.changes_per_minute for table in document.tables.values() if table.changes_per_minute is not None]
    return round(sum(rates), 1) if rates else None
