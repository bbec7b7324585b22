"""What a history knows of a moment, by LSN and by time, and what of that its log keeps."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import HistoryLostError
from cdc.core.position import Lsn
from cdc.sinks.lake.delta.schema import metadata_action
from cdc.sinks.lake.delta.snapshot import Snapshot
from cdc.sinks.lake.history.facts import Gap, HistoryEnd, HistoryFacts, HistoryMoment, TrackedShape, read_facts
from tests.support.histories import THINGS

NARROW = replace(THINGS, columns=THINGS.columns[:2])
FACTS = (
    HistoryFacts(
        THINGS.name,
        2,
        HistoryEnd(7, 3, "ab", HistoryMoment(5, 500)),
        (TrackedShape.of(THINGS, HistoryMoment(10, 1_000)),),
    )
    .with_shape(THINGS, HistoryMoment(15, 1_500))
    .with_shape(NARROW, HistoryMoment(20, 2_000))
    .with_gap(Gap(HistoryMoment(30, 3_000), HistoryMoment(40, 4_000)))
)


def at_ms(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


@pytest.mark.parametrize("moment", [lambda lsn: Lsn(lsn), lambda lsn: at_ms(100 * lsn)], ids=["lsn", "time"])
def test_each_moment_has_its_shape_or_is_refused(moment: Callable[[int], Lsn | datetime]) -> None:
    for lsn, table in ((10, THINGS), (19, THINGS), (20, NARROW), (30, NARROW), (40, NARROW), (99, NARROW)):
        assert FACTS.find_shape(moment(lsn)).is_of(table), lsn
    for lsn, told in ((9, "begins at 0/A"), (31, "between 0/1E and 0/28"), (39, "between 0/1E and 0/28")):
        with pytest.raises(HistoryLostError, match=told):
            FACTS.find_shape(moment(lsn))


def test_the_log_keeps_all_of_it() -> None:
    described = metadata_action("things", arrow_schema(THINGS), FACTS.as_property())
    assert read_facts(Snapshot(metadata=described)) == FACTS
    assert read_facts(Snapshot()) is None


def test_a_gap_that_is_not_closed_yet_is_one_gap() -> None:
    later = FACTS.with_gap(Gap(HistoryMoment(30, 3_000), HistoryMoment(50, 5_000)))
    assert [str(gap.until) for gap in later.gaps] == ["0/32"]
    # a source that was put back goes on with a lower LSN
    back = FACTS.with_gap(Gap(HistoryMoment(60, 6_000), HistoryMoment(45, 7_000)))
    assert back.find_shape(Lsn(50)).is_of(NARROW)
    with pytest.raises(HistoryLostError):
        back.find_shape(at_ms(6_500))
    assert FACTS.with_gap(Gap(HistoryMoment(60, 6_000), HistoryMoment(60, 6_000))) == FACTS
