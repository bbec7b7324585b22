"""Tables copied while the lake's stream runs: no change is lost, or waited for in vain."""

from pathlib import Path

import pytest

from cdc.columns.netting.ends import Ends, concat_ends, to_columns
from cdc.core.position import Lsn
from cdc.core.table import Table
from cdc.core.transaction import TransactionEnd
from cdc.run.follow.lake import table_joiner
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.feed.feed import LakeFeed
from tests.support.lake.places import PlacedLake, in_folder
from tests.unit.log.log_in_memory import inserts
from tests.unit.log.stream_in_memory import (
    NEW,
    OLD,
    FakeEndsAbove,
    Interrupted,
    Stream,
    copy,
    copy_old_table,
    follower_of,
    use_no_kafka,
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlacedLake:
    use_no_kafka(monkeypatch)
    return in_folder(tmp_path)


def rows(lake: PlacedLake, of: Table) -> list[int]:
    """The ids that the last cut has of a table."""
    return [each for each, _ in whole_rows(lake, of)]


def whole_rows(lake: PlacedLake, of: Table) -> list[tuple[int, str]]:
    feed = LakeFeed(None, lake)
    assert str(of.name) in feed.last_cut().versions
    state = DeltaLog.open(lake.table_storage(of.name))
    assert state is not None
    shares = [Share(file) for file in state.snapshot.files.values()]
    found = [part for each in shares for part in live_rows(lake.table_storage(of.name), each, of)]
    return sorted((row["id"], row["was"]) for part in found for row in part.to_pylist())


def test_table_copied_between_two_runs_joins_with_the_next_call(lake: PlacedLake) -> None:
    copy_old_table(lake)
    stream = Stream(lake)
    Interrupted.meanwhile[120] = lambda: copy(lake, NEW, 115)
    stream.follow(110, 120, 130)
    assert str(NEW.name) not in LakeFeed(None, lake).last_cut().versions
    stream.follow(140)
    assert rows(lake, NEW) == [130]
    stream.follow(150)
    assert (rows(lake, OLD), rows(lake, NEW)) == ([110, 120, 140], [130, 150])


def test_table_copied_during_a_run_misses_no_change(lake: PlacedLake) -> None:
    copy_old_table(lake)
    stream = Stream(lake)
    Interrupted.meanwhile[130] = lambda: copy(lake, NEW, 125)
    # its change is not in the copy, and was counted for those tables only that were there
    stream.follow(120, 130)
    stream.follow(140)
    assert rows(lake, NEW) == [130]


def test_several_tables_catch_up_each_from_its_own_bookmark(lake: PlacedLake) -> None:
    copy_old_table(lake)
    stream = Stream(lake)
    stream.follow(110, 120)
    stream.follower.tables.stop({OLD.name: "its schema has changed"}, [OLD.name])
    stream.follow(130)
    copy(lake, NEW, 105)
    copy(lake, OLD, 125)
    # as the stream does when the renewal says so
    stream.follower.tables.forget([OLD.name])
    stream.follow(140, 150)
    assert (rows(lake, OLD), rows(lake, NEW)) == ([110, 120, 140], [130, 150])
    stream.follow(160)
    assert rows(lake, OLD) == [110, 120, 140, 160]


def test_duplicate_end_counts_once(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    again = to_columns([TransactionEnd(131, 130, Lsn(130), 0, {str(NEW.name): 1})])

    class Twice(FakeEndsAbove):
        def up_to(self, offset: int) -> Ends:
            return concat_ends([super().up_to(offset), again])

    monkeypatch.setattr(table_joiner, "EndsAbove", Twice)
    copy_old_table(lake)
    stream = Stream(lake)
    stream.follow(110, 120, 130)
    copy(lake, NEW, 105)
    stream.follow(140)
    assert (rows(lake, OLD), rows(lake, NEW)) == ([110, 120, 140], [130])


def test_changes_replayed_for_a_joining_table_are_not_read_again(lake: PlacedLake) -> None:
    copy_old_table(lake)
    stream = Stream(lake)
    stream.follow(110, 120, 130)
    copy(lake, NEW, 105)
    stream.follow(150)
    assert stream.log.began[f"p.{NEW.name}"] > 0
    again = Stream(lake)
    again.follow(160)
    assert rows(lake, NEW) == [130, 150]


@pytest.mark.parametrize("bookmark", [145, 125], ids=["ahead of the stream", "replayed"])
def test_table_that_joins_gets_nothing_of_a_lost_past(lake: PlacedLake, bookmark: int) -> None:
    # a source that was put back gives out its transaction ids again: the same ones lie in the topic twice
    past, now = inserts(NEW, [130, 150], "lost"), inserts(NEW, [130, 150])
    copy_old_table(lake)
    stream = Stream(lake)
    stream.log.put(f"p.{NEW.name}", [*past, *now])
    stream.follow(110, 120, 130, 140)
    copy(lake, NEW, bookmark, len(past))
    stream.follow(150)
    replayed = [(130, "x")] if bookmark < 130 else []
    copied = [(130, "x")] if bookmark > 130 else []
    assert whole_rows(lake, NEW) == [*copied, *replayed, (150, "x")]
    assert stream.log.began[f"p.{NEW.name}"] >= len(past)


def test_table_that_rested_holds_no_message_from_before_its_copy(lake: PlacedLake) -> None:
    copy_old_table(lake)
    stream = Stream(lake)
    stream.log.put(f"p.{NEW.name}", inserts(NEW, [*range(1000, 1500), 150]))
    stream.follow(110, 120, 130, 140)
    copy(lake, NEW, 145, 500)
    stream.follow(150)
    assert stream.log.most_waiting[f"p.{NEW.name}"] == 1
    assert rows(lake, NEW) == [130, 150]


def test_place_in_a_topic_that_was_made_anew_is_that_of_the_new_copy(lake: PlacedLake) -> None:
    copy(lake, OLD, 100, 40)
    stream_of_first_cut(lake)
    stream = Stream(lake)
    stream.log.put(f"p.{OLD.name}", inserts(OLD, [140, 160]))
    stream.follower.tables.stop({OLD.name: "its topic was made anew"}, [OLD.name])
    copy(lake, OLD, 145, 1)
    stream.follower.tables.forget([OLD.name])
    stream.follow(160)
    position = stream.follower.position()
    assert position is not None
    assert position.next_offsets == {f"p.{OLD.name}": {0: 2}}
    assert rows(lake, OLD) == [110, 120, 140, 160]


def stream_of_first_cut(lake: PlacedLake) -> None:
    follower = follower_of(lake)
    follower.first_cut(0)
    position = follower.position()
    assert position is not None
    # the copies say where the log goes on
    assert position.next_offsets == {f"p.{OLD.name}": {0: 40}}


def test_table_whose_topic_lost_what_it_joins_with_is_stopped_alone(lake: PlacedLake) -> None:
    copy_old_table(lake)
    stream = Stream(lake)
    stream.log.put(f"p.{NEW.name}", [])
    stream.follow(110, 120, 130)
    copy(lake, NEW, 105)
    stream.follow(140)
    assert [(stop.name, stop.copy) for stop in stream.follower.tables.stops()] == [(NEW.name, True)]
    assert rows(lake, OLD) == [110, 120, 140]
