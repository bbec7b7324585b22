"""The requests of a lake on an object store: each takes time and costs money."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import obstore
import pytest

from cdc.columns.netting.batch import DecodedBatch, TableChanges
from cdc.columns.netting.ends import to_columns
from cdc.config.file import load as load_settings
from cdc.config.init import TemplateValues, template
from cdc.core.errors import TableLostError
from cdc.core.position import Bookmark, Lsn, Position
from cdc.core.table import TableName
from cdc.core.table_state import ACTIVE, Followed, Joining
from cdc.core.transaction import TransactionEnd
from cdc.run.pipeline import Pipeline
from cdc.run.status.asking.lake_questions import LakeQuestions
from cdc.run.status.asking.paces import Paces
from cdc.run.status.asking.row_counts import count_lake_rows
from cdc.sinks.lake import maintenance
from cdc.sinks.lake.delta import checkpoint, retention
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.metadata import table as metadata_table
from cdc.sinks.lake.metadata.cuts import Cuts
from cdc.sinks.lake.metadata.table import MetadataTable
from cdc.sinks.lake.metadata.table_list import SCHEMA
from cdc.sinks.lake.settings import DeltaSettings
from tests.support.histories import THINGS
from tests.support.lake.places import CLOUDS, PlacedLake, place_lake
from tests.support.lake.tables import row, update, write_copy
from tests.support.model_changes import as_columns

BATCHES = 30


@pytest.fixture(params=("object store", *CLOUDS))
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    return place_lake(request, tmp_path)


def follower_of(lake: PlacedLake) -> DeltaFollower:
    assert lake.access is not None
    settings = DeltaSettings.model_validate({"kind": "delta", "path": lake.path, lake.access.block: lake.access})
    return DeltaFollower(settings, lake, lake.indexes / "index")


def batch(rank: int) -> DecodedBatch:
    changes = update(rank, row(rank % 300, f"x {rank}"), row(1 + rank % 300, "y"))
    end = TransactionEnd(rank, rank, Lsn(rank * 10), 0, {str(THINGS.name): 2})
    return DecodedBatch(to_columns([end]), {THINGS.name: TableChanges(as_columns(THINGS, changes), np.full(2, rank))})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts requests by kind."""
    counts = Counter[str]()

    def counted(name: str) -> None:
        ask = getattr(obstore, name)

        def request(*arguments: Any, **options: Any) -> Any:
            counts[name] += 1
            return ask(*arguments, **options)

        monkeypatch.setattr(obstore, name, request)

    for name in ("get", "get_range", "head", "put", "delete", "list_with_delimiter", "open_writer"):
        counted(name)
    return counts


def test_a_batch_takes_six_requests_plus_maintenance(lake: PlacedLake, asked: Counter[str]) -> None:
    """Rows, commit and a check of the log; the same for the cut. A large vector is one more."""
    follower = follower_of(lake)
    follower.prepare([THINGS])
    follower.load(THINGS, [write_copy(lake, THINGS, [row(n, "old") for n in range(400)])], Bookmark(Lsn(1), 4711, 1))
    follower.first_cut(0)
    follower.tables.adopt(follower.tables.select(Joining))

    def go_on(ranks: range) -> None:
        for rank in ranks:
            # as the stream does for each run
            follower.tables.select(Joining)
            follower.tables.select(Followed)
            follower.apply(batch(rank), Position(rank, Lsn(rank * 10), 0))

    go_on(range(10, 12))
    asked.clear()
    go_on(range(12, 12 + BATCHES))
    # the small vectors stand in the log
    assert asked == {"put": 4 * BATCHES, "get": 2 * BATCHES}
    asked.clear()
    for rank in range(100, 100 + BATCHES):
        go_on(range(rank, rank + 1))
        follower.maintenance.run([])
    assert asked.total() <= 10 * BATCHES, asked


@pytest.fixture
def idle(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> DeltaFollower:
    """A lake of some tables, whose maintenance visits all of them each time."""
    monkeypatch.setattr(maintenance, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(retention, "RELIST_SECONDS", 0.0)
    follower = follower_of(lake)
    tables = [replace(THINGS, name=TableName("public", f"things{number}")) for number in range(5)]
    follower.prepare(tables)
    for table in tables:
        follower.load(table, [write_copy(lake, table, [row(1, "old")])], Bookmark(Lsn(1), 4711, 1))
    follower.first_cut(0)
    return follower


def add_cut(follower: DeltaFollower, rank: int) -> None:
    """A cut for a heartbeat."""
    end = TransactionEnd(rank, rank, Lsn(rank * 10), 0, {})
    follower.apply(DecodedBatch(to_columns([end]), {}), Position(rank, Lsn(rank * 10), 0))


def test_an_idle_lake_takes_three_requests_a_cut_and_none_in_between(idle: DeltaFollower, asked: Counter[str]) -> None:
    """However many tables there are, and however often the stream and the maintenance look."""
    add_cut(idle, 10)
    behind = Position(10, Lsn(100), 0)

    def rest() -> None:
        idle.tables.select(Joining)
        assert not idle.awaits_cut()
        idle.maintenance.run([behind])

    rest()
    asked.clear()
    for _ in range(10):
        rest()
    assert not asked
    add_cut(idle, 11)
    assert asked == {"put": 2, "get": 1}


def test_a_copy_looks_for_no_other_tables(lake: PlacedLake, asked: Counter[str]) -> None:
    """A first copy of two hundred tables looked twenty thousand times for those that had none yet."""
    follower, looks = follower_of(lake), list[int]()
    tables = [replace(THINGS, name=TableName("public", f"things{number}")) for number in range(8)]
    follower.prepare(tables)
    for table in tables:
        copied = write_copy(lake, table, [row(1, "old")])
        asked.clear()
        follower.load(table, [copied], Bookmark(Lsn(1), 4711, 1))
        looks.append(asked["list_with_delimiter"])
    assert max(looks[1:]) <= 3, looks


def test_rows_at_a_cut_are_counted_in_tables_that_are_open(
    idle: DeltaFollower, lake: PlacedLake, asked: Counter[str]
) -> None:
    cut, name = idle.cuts.last(), TableName("public", "things0")
    assert cut is not None
    pipeline = cast("Pipeline", SimpleNamespace(lake=lake, lake_follower=idle))
    assert idle.tables.find(name) is not None
    asked.clear()
    assert count_lake_rows(pipeline, name, cut) == 1
    assert not asked
    # a cut that names another commit is read for itself, and refused
    other = replace(cut, commits={**cut.commits, str(name): "another"})
    with pytest.raises(TableLostError):
        count_lake_rows(pipeline, name, other)


def test_a_reader_of_cuts_takes_three_requests_for_one_and_one_for_none(
    idle: DeltaFollower, lake: PlacedLake, asked: Counter[str]
) -> None:
    reader = Cuts(lake)
    first = reader.last()
    assert first is not None
    add_cut(idle, 10)
    asked.clear()
    [found] = reader.list_after(first, 10)
    # its commit, the next one that is not there, and its file
    assert asked.total() == 3, asked
    asked.clear()
    assert not reader.list_after(found, 10)
    assert asked.total() == 1, asked


def test_another_writers_table_is_seen_after_the_refresh_interval(
    lake: PlacedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = follower_of(lake)
    follower.prepare([])
    assert not follower.tables.select(*ACTIVE)
    other = follower_of(lake)
    other.prepare([THINGS])
    other.load(THINGS, [write_copy(lake, THINGS, [row(1, "old")])], Bookmark(Lsn(1), 4711, 1))
    # who is told of it looks at once
    follower.tables.forget([THINGS.name])
    assert [*follower.tables.select(*ACTIVE)] == [THINGS.name]
    late = follower_of(lake)
    late.prepare([])
    monkeypatch.setattr(metadata_table, "REFRESH_SECONDS", 0.0)
    assert [*late.tables.select(*ACTIVE)] == [THINGS.name]


def test_a_log_whose_next_commit_was_vacuumed_is_reopened(lake: PlacedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a machine slept: the next version would never be found."""
    monkeypatch.setattr(checkpoint, "CHECKPOINT_EVERY", 5)
    slept, other = (MetadataTable(lake.metadata_storage("tables"), "tables", SCHEMA) for _ in range(2))
    slept.append([{"schema": "public", "table": "first"}])
    for number in range(12):
        other.append([{"schema": "public", "table": f"t{number}"}])
        other.maintain(0)
    last = other.snapshot()
    assert last is not None
    monkeypatch.setattr(metadata_table, "CHECK_SECONDS", 0.0)
    snapshot = slept.snapshot()
    assert snapshot is not None
    assert (snapshot.version, snapshot.files) == (last.version, last.files)


def test_who_watches_an_idle_lake_takes_as_few_requests_for_many_tables_as_for_one(
    idle: DeltaFollower, lake: PlacedLake, asked: Counter[str], tmp_path: Path
) -> None:
    """One for the newest cut every 10 s, and four for the state of all tables every 60: ten in a minute."""
    tables = tuple(f"public.things{number}" for number in range(5))
    (tmp_path / "cdc.yaml").write_text(template(TemplateValues(password="p", tables=tables)))
    pipeline = Pipeline(load_settings(tmp_path / "cdc.yaml"))
    pipeline.__dict__["lake"] = lake
    questions, paces = LakeQuestions(pipeline), Paces.of(pipeline)
    assert len(questions.look_at_tables().states) == 5
    questions.count_rows()
    questions.look_at_files()
    questions.look()
    at = idle.position()
    asked.clear()
    assert questions.look().position == at
    assert asked.total() == 1, asked
    asked.clear()
    questions.look_at_tables()
    of_tables = asked.total()
    questions.count_rows()
    questions.look_at_files()
    # each looks for a newer cut, and at no table that no cut has moved
    assert asked.total() == of_tables + 2, asked
    assert (of_tables, 60 / paces.cut + of_tables * 60 / paces.tables) == (4, 10)
