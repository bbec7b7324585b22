"""A table's states in the lake, as this process and a new one see them."""

import shutil
from pathlib import Path

import pytest

from cdc.core.position import Lsn
from cdc.core.table_state import Followed, Joining, Listed, Stopped, TableState
from cdc.sinks.lake.apply.tables import GONE
from cdc.sinks.lake.follower import DeltaFollower
from tests.support.histories import THINGS
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables_at import OTHERS, bootstrap_follower, follower_of, load_copy, transact


@pytest.fixture
def lake(tmp_path: Path) -> PlacedLake:
    return in_folder(tmp_path)


def things(follower: DeltaFollower) -> TableState:
    states = follower.tables.states()
    assert states.keys() == {THINGS.name, OTHERS.name}
    return states[THINGS.name]


def test_a_table_goes_from_listed_to_followed(lake: PlacedLake) -> None:
    follower = follower_of(lake)
    assert things(follower) == Listed()
    load_copy(lake, follower, THINGS, 1, "copy")
    assert things(follower) == Joining()
    follower.first_cut(0)
    assert things(follower) == things(follower_of(lake)) == Followed()
    assert follower.tables.states()[OTHERS.name] == Listed()


def test_a_stopped_table_joins_again_by_a_new_copy(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    follower.tables.stop({THINGS.name: "its schema has changed"}, [THINGS.name])
    stop = Stopped(Lsn(10), "its schema has changed", recopy=True)
    assert things(follower) == things(follower_of(lake)) == stop
    transact(follower, 20)
    load_copy(lake, follower, THINGS, 15, "at 15")
    assert things(follower) == Joining()
    follower.tables.adopt([THINGS.name])
    # until the next cut, only this process knows of the adoption
    assert (things(follower), things(follower_of(lake))) == (Followed(), Joining())
    transact(follower, 30)
    assert things(follower_of(lake)) == Followed()


def test_a_lost_table_is_stopped_by_the_next_batch(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    shutil.rmtree(lake.disk(THINGS.name))
    again = follower_of(lake)
    assert things(again) == Listed()
    transact(again, 20)
    assert things(again) == things(follower_of(lake)) == Stopped(Lsn(10), GONE, recopy=True)
