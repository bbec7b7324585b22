"""A backlog is applied while it is read: the first commits do not wait until the last ones are known."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame

from cdc.columns.netting.ends import Ends
from cdc.core.position import BEFORE_LOG, Position
from cdc.log.end_reader import EndReader
from cdc.run.follow.step_size import StepBounds, StepSize
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.waiting import until
from tests.unit.log.stream_in_memory import Stream, copy_old_table, ends, follower_of, use_no_kafka


class Parts:
    """ENDs that are read part by part, the last one once the lake has reached the offset `awaited`."""

    def __init__(self, lake: PlacedLake, parts: tuple[Ends, ...], awaited: int) -> None:
        self._lake = lake
        self._parts = parts
        self._awaited = awaited

    def begin(self, position: Position) -> None:
        pass

    def read(self, most: int) -> Iterator[Ends]:
        yield from self._parts[:-1]
        until(lambda: reached(self._lake) >= self._awaited, "the first part is applied")
        yield self._parts[-1]

    def waiting(self) -> int:
        return 0


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlacedLake:
    use_no_kafka(monkeypatch)
    return in_folder(tmp_path)


def reached(lake: PlacedLake) -> int:
    last = follower_of(lake).cuts.last()
    assert last is not None
    return last.position.end_offset


def follow(lake: PlacedLake, *parts: Ends, awaited: int = BEFORE_LOG) -> int:
    """Apply a change at a time; returns how far the lake is then."""
    copy_old_table(lake)
    stream = Stream(lake)
    stream._readers = replace(stream._readers, ends=cast(EndReader, Parts(lake, parts, awaited)))
    stream._cuts.step = StepSize(StepBounds(1, 1, 1))
    stream(cast(DataFrame, None), 0)
    return reached(lake)


def test_the_first_part_is_applied_before_the_last_is_read(lake: PlacedLake) -> None:
    assert follow(lake, ends(110), ends(120), ends(140), ends(160), awaited=110) == 160


def test_what_is_delivered_again_is_applied_once(lake: PlacedLake) -> None:
    assert follow(lake, ends(110, 120), ends(110, 120), ends(), ends(110)) == 120
