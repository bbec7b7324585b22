"""A lake to which only heartbeats come: on an object store it gets a cut a minute, unless somebody waits for one."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cdc.columns.netting.ends import Ends, to_columns
from cdc.core.errors import HistoryLostError
from cdc.core.position import Lsn, Position
from cdc.core.transaction import TransactionEnd
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.pace import STORE_REST_SECONDS, Pace, PaceLimits
from tests.support.lake.places import PlacedLake, in_folder
from tests.unit.log.stream_in_memory import (
    BEATS,
    NEW,
    OLD,
    TRANSACTIONS,
    Stream,
    copy,
    copy_old_table,
    follower_of,
    use_no_kafka,
)

ROUTINE: Mapping[int, str | None] = dict.fromkeys(range(101, 160), None)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlacedLake:
    use_no_kafka(monkeypatch)
    found = in_folder(tmp_path)
    copy_old_table(found)
    return found


class Resting(Stream):
    """A stream that paces itself as on an object store, by a clock that a test sets."""

    def __init__(self, lake: PlacedLake, beats: Mapping[int, str | None] = ROUTINE) -> None:
        super().__init__(lake, beats=beats)
        self.now = 0.0
        self._pace = Pace(PaceLimits.of_object_store(None), lambda: self.now)

    def take(self, *numbers: int) -> None:
        """Take these transactions, one after the other; what is no change is a heartbeat."""
        for number in numbers:
            self._apply(end(number))
        self._await_commit()

    @property
    def position(self) -> Position:
        return self._position

    def set_hook(self, *, may_rest: bool) -> None:
        object.__setattr__(self._hooks, "may_rest", lambda: may_rest)


def end(number: int) -> Ends:
    table = TRANSACTIONS.get(number, BEATS)
    return to_columns([TransactionEnd(number, number, Lsn(number), number, {str(table.name): 1})])


def cut(lake: PlacedLake) -> Cut:
    last = follower_of(lake).cuts.last()
    assert last is not None
    return last


def reached(lake: PlacedLake) -> int:
    return cut(lake).position.end_offset


def test_heartbeats_alone_get_one_cut_a_minute(lake: PlacedLake) -> None:
    stream = Resting(lake)
    # whatever comes first after a start
    stream.take(101)
    assert reached(lake) == 101
    for number in range(102, 107):
        stream.now += 10
        stream.take(number)
        assert reached(lake) == 101
    stream.now += STORE_REST_SECONDS - 50
    stream.take(107)
    assert reached(lake) == 107
    stream.take(108, 109)
    assert reached(lake) == 107


@pytest.mark.parametrize("kind", [Resting, Stream])
def test_no_cut_shows_a_table_that_is_ahead(lake: PlacedLake, kind: type[Stream]) -> None:
    """A kill came between the tables of a transaction that is a run of its own."""
    before = reached(lake)
    stream = kind(lake, beats=ROUTINE)
    stream._furthest = 110
    stream._apply(end(101))
    stream._await_commit()
    assert reached(lake) == before
    stream._apply(end(110))
    stream._await_commit()
    assert reached(lake) == 110


def test_a_folder_gets_a_cut_for_each(lake: PlacedLake) -> None:
    stream = Stream(lake, beats=ROUTINE)
    for number in (101, 102, 103):
        stream._apply(end(number))
        stream._await_commit()
        assert reached(lake) == number


@pytest.mark.parametrize("mark", ["token", "caught up?", "verify 0/1", "copied again", "one of tomorrow"])
def test_whoever_waits_writes_a_mark_and_gets_a_cut_at_once(lake: PlacedLake, mark: str) -> None:
    stream = Resting(lake, {101: None, 102: None, 103: mark, 104: None})
    stream.take(101, 102)
    assert reached(lake) == 101
    stream.take(103)
    assert reached(lake) == 103
    stream.take(104)
    assert reached(lake) == 103


def test_a_change_gets_its_cut_at_once_with_all_heartbeats_before_it(lake: PlacedLake) -> None:
    stream = Resting(lake, dict.fromkeys((101, 102, 103, 111), None))
    stream.take(101, 102, 103)
    assert reached(lake) == 101
    stream.take(110)
    assert reached(lake) == 110
    # of a table that nobody follows: what is not known is a change
    stream.take(111, 130)
    assert reached(lake) == 130
    assert cut(lake).position == stream.position


def test_what_had_no_cut_is_read_again_after_a_restart(lake: PlacedLake) -> None:
    first = Resting(lake)
    first.take(101, 102, 103)
    again = Resting(lake)
    assert (first.position.end_offset, again.position.end_offset) == (103, 101)
    again.take(102)
    again.take(103)
    assert (again.position.end_offset, again.position.beat) == (103, first.position.beat)
    assert reached(lake) == 102


def test_a_heartbeat_that_is_missing_is_found_without_a_cut(lake: PlacedLake) -> None:
    stream = Resting(lake)
    stream.take(101, 102)
    with pytest.raises(HistoryLostError, match="heartbeats of the source are missing"):
        stream.take(104)


def test_a_table_that_joins_and_one_that_stops_do_not_wait(lake: PlacedLake) -> None:
    stream = Resting(lake)
    stream.take(101, 102)
    copy(lake, NEW, 102)
    stream.follower.tables.forget([NEW.name])
    stream.take(103)
    assert cut(lake).versions.keys() == {str(OLD.name), str(NEW.name)}
    stream.take(104)
    assert reached(lake) == 103
    stream.follower.tables.stop({OLD.name: "it is altered"})
    stream.take(105)
    assert cut(lake).versions.keys() == {str(NEW.name)}
    assert reached(lake) == 105


def test_nothing_waits_while_somebody_needs_each_cut(lake: PlacedLake) -> None:
    stream = Resting(lake)
    stream.set_hook(may_rest=False)
    for number in (101, 102, 103):
        stream.take(number)
        assert reached(lake) == number
