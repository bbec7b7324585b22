"""What documents keep from those before: since when, events, points of charts; and what they say when they are old."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from cdc.run.status.document import About, Document, StatusVerdict
from cdc.run.status.judging.events import MOST_TABLES, add_events
from cdc.run.status.judging.freshness import mark_stale
from cdc.run.status.judging.series import MOST, add_points
from cdc.run.status.judging.since import keep_since
from cdc.run.status.things import FollowerStatus, Level, Part, Slot, State, TableStatus, View, to_time

NOW = to_time(1_700_000_040)


def document(state: State = State.OK, tables: int = 1, minutes: float = 0, size: int = 7) -> Document:
    part = Part(order=2, kind="Capture", name="cdc-shop", state=state, word=state.value, checked_at=NOW)
    lake = FollowerStatus(
        order=1, kind="delta", what="", state=State.OK, word="current", p50_seconds=1.5, p99_seconds=3.0
    )
    return Document(
        schema=1,
        seq=1,
        at=NOW + timedelta(minutes=minutes),
        every_seconds=2.0,
        pipeline=About(name="shop", version="1"),
        verdict=StatusVerdict(level=Level.OK, title="Everything is current"),
        parts={"capture": part},
        followers={"lake": lake},
        tables={f"public.t{n}": TableStatus(changes_per_minute=2.0) for n in range(tables)},
        views={"shop.totals": View(order=1, state=State.OK, word="kept up")},
        slot=Slot(name="cdc", state=State.OK, word="moves on", retained_bytes=size),
    )


def test_a_state_keeps_its_time_until_it_changes() -> None:
    first, was = document().parts, NOW - timedelta(hours=3)
    known = {"capture": replace(first["capture"], since=was)}
    assert keep_since(first, known, NOW)["capture"].since == was
    assert keep_since(document(State.STILL).parts, known, NOW)["capture"].since == NOW
    # a time that is known by itself stays; and nobody knows that of the first look
    assert keep_since(known, first, NOW)["capture"].since == was
    assert keep_since(first, {}, NOW)["capture"].since is None


def test_events_are_told_once_and_the_newest_first() -> None:
    first = document()
    still = document(State.STILL, minutes=1)
    still = replace(still, events=add_events(still, first))
    again = replace(document(State.STILL, minutes=2), events=add_events(document(State.STILL, minutes=2), still))
    gone_on = add_events(document(minutes=3), again)
    assert [(event.text, event.level) for event in gone_on] == [("capture: ok", None), ("capture: still", Level.NOW)]
    assert add_events(document(State.STILL), None) == []
    # what nobody knew for a moment is no event, and a day is all that is kept
    assert add_events(document(State.UNKNOWN), first) == []
    assert add_events(document(State.STILL, minutes=24 * 60 + 1), still) == []


def test_thousands_of_tables_are_a_few_events() -> None:
    told = add_events(document(tables=2001), document())
    assert len(told) == MOST_TABLES + 1
    assert told[-1].text == "1,980 more tables changed their state"


def test_points_of_a_chart_with_gaps_where_nobody_looked() -> None:
    first = replace(document(), series=add_points(document(), None))
    assert first.series is not None
    assert (first.series.slot_bytes, first.series.freshness["lake"].p99) == ([7], [3.0])
    assert add_points(document(minutes=0.2), first) == first.series
    later = add_points(document(minutes=3, tables=4, size=9), first)
    assert later.slot_bytes == [7, None, None, 9]
    assert later.changes_per_minute["arrived"] == [2.0, None, None, 8.0]
    full = add_points(document(minutes=MOST + 1), replace(first, series=later))
    assert (len(full.slot_bytes), full.start) == (MOST, first.series.start + timedelta(minutes=2))
    assert add_points(document(minutes=5 * MOST), first).slot_bytes == [7]


@pytest.mark.parametrize(("age", "is_stale"), [(14, False), (40, True)])
def test_a_document_that_nobody_renews_is_not_known(age: int, is_stale: bool) -> None:
    found = mark_stale(document(), NOW.timestamp() + age)
    if not is_stale:
        assert found == document()
        return
    shown = (found.parts, found.followers, found.views, found.tables)
    assert {thing.state for things in shown for thing in things.values()} == {State.UNKNOWN}
    assert found.parts["capture"].word == "not known; last looked 40 s ago"
    assert found.verdict.title == "Last known, at 22:14:00: Everything is current"
    assert found.verdict.level is Level.UNKNOWN
