"""Who looks at a lake again and again opens its tables once: on an object store, each opening is requests."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from cdc.config.file import load as load_settings
from cdc.config.init import TemplateValues, template
from cdc.config.settings import PipelineSettings
from cdc.connect.source import catalog
from cdc.connect.source.access import connection as source
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Table, TableName
from cdc.core.table_state import Followed, Joining
from cdc.run.pipeline import Pipeline
from cdc.run.tables.selection import find_new_tables
from cdc.run.verify import catch_up
from cdc.run.verify.catch_up import wait_for_tables
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.storage.base import Storage
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables import write_copy
from tests.unit.log.log_in_memory import table
from tests.unit.log.stream_in_memory import follower_of

TABLES = [table(f"t{number}") for number in range(5)]


@pytest.fixture
def lake(tmp_path: Path) -> PlacedLake:
    found = in_folder(tmp_path)
    for each in TABLES:
        load(found, each, 10)
    follower_of(found).first_cut(0)
    return found


def load(lake: PlacedLake, of: Table, lsn: int) -> None:
    follower = follower_of(lake)
    follower.prepare([of])
    follower.load(of, [write_copy(lake, of, [{"id": 1, "was": "x"}])], Bookmark(Lsn(lsn), 4711, 1))


@pytest.fixture
def settings(tmp_path: Path, lake: PlacedLake) -> PipelineSettings:
    """A pipeline that follows all tables of a schema into this lake."""
    values = TemplateValues(
        host="nowhere",
        port=1,
        dbname="d",
        user="u",
        password="p",
        bootstrap="nowhere:9",
        connect_url="http://nowhere:1",
        tables=("public.*",),
    )
    config = tmp_path / "cdc.yaml"
    config.write_text(template(values))
    return load_settings(config)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often each table's log is opened."""
    counts, really_open = Counter[str](), DeltaLog.open

    def count(storage: Storage, version: int | None = None) -> DeltaLog | None:
        counts[storage.uri().rpartition("/")[2]] += 1
        return really_open(storage, version)

    monkeypatch.setattr(DeltaLog, "open", count)
    return counts


def open_on(lake: PlacedLake, settings: PipelineSettings) -> Pipeline:
    """The pipeline of these settings on a lake that may lie elsewhere."""
    pipeline = Pipeline(settings)
    pipeline.__dict__["lake_follower"] = follower_of(lake)
    return pipeline


def test_idle_minute_with_a_pattern_opens_no_table_again(
    lake: PlacedLake, settings: PipelineSettings, opened: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [each.name for each in TABLES]
    monkeypatch.setattr(source, "open_connection", lambda _: nullcontext())
    monkeypatch.setattr(catalog, "list_tables", lambda *_: [*there, TableName("public", "late")])
    pipeline = open_on(lake, settings)
    assert find_new_tables(pipeline) == {TableName("public", "late")}
    opened.clear()
    for _ in range(6):
        assert find_new_tables(pipeline) == {TableName("public", "late")}
    assert not opened
    load(lake, table("late"), 20)
    assert find_new_tables(pipeline) == set()


def test_wait_for_a_table_that_joins_opens_the_others_once(
    lake: PlacedLake, settings: PipelineSettings, opened: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, late = follower_of(lake), table("late")
    load(lake, late, 20)
    opened.clear()
    looks = 0

    def go_on(_: float) -> None:
        """What `cdc follow` does between two looks: it stops a table, and later the new one joins."""
        nonlocal looks
        looks += 1
        if looks == 3:
            writer.tables.stop({TABLES[0].name: "it is altered"})
        if looks == 9:
            writer.tables.adopt(writer.tables.select(Joining))
            last = writer.cuts.last()
            assert last is not None
            position = replace(last.position, end_offset=30, lsn=Lsn(30))
            writer.cuts.add(writer._cut(writer.tables.select(Followed), position, 0), last)

    # not of the module `time`: other threads sleep, too
    monkeypatch.setattr(catch_up, "time", SimpleNamespace(sleep=go_on))
    stops = wait_for_tables(open_on(lake, settings), {"lake": follower_of(lake).position}, 60.0, {late.name})
    assert looks == 9
    assert [stop.name for stop in stops] == [TABLES[0].name]
    mine = {name: count for name, count in opened.items() if name in {each.name.table for each in TABLES[1:]}}
    # once by the one that waits, once by the writer
    assert mine == {each.name.table: 2 for each in TABLES[1:]}
