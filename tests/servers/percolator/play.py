"""What the tests of the percolator do again and again: tables, followers one after the other, what the topics say."""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from cdc.columns.feed import FeedBatch
from cdc.columns.table_copy import RowsTask
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.position import Lsn, Position
from cdc.core.table import Column, Kind, Table, TableName
from cdc.log.settings import LogSettings
from cdc.sinks.owner import Owner
from cdc.sinks.percolator.follower import PercolatorFollower
from cdc.sinks.percolator.layout import Topics
from cdc.sinks.percolator.settings import PercolatorSettings
from cdc.sinks.registry import fed_follower
from tests.contract.fed import changed
from tests.contract.followers import bookmark
from tests.servers.latest.play import records
from tests.support.model import Key, Row
from tests.support.parts.removal import delete_indexes

LISTINGS = Table(
    TableName("public", "listings"),
    (
        Column("id", Kind.INTEGER),
        Column("title", Kind.TEXT),
        Column("price", Kind.INTEGER),
        Column("city", Kind.TEXT),
    ),
    ("id",),
)
SEARCHES = Table(
    TableName("public", "saved_searches"), (Column("id", Kind.INTEGER), Column("query", Kind.JSON)), ("id",)
)
MARK = bookmark(5)
Pairs = set[tuple[int, int]]
"""Queries and rows, by their ids."""
States = Mapping[Key, Row | None]


def at(offset: int) -> Position:
    return Position(offset, Lsn(10 * offset), 500 + offset)


def listing(number: int, title: str = "red boat", price: int | None = 5, city: str | None = "Kiel") -> Row:
    return {"id": number, "title": title, "price": price, "city": city}


def saved(number: int, query: str | Mapping[str, Any] | None) -> Row:
    text = query if query is None or isinstance(query, str) else json.dumps(query)
    return {"id": number, "query": text}


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """A `TableCopy` whose task runs in this process: these tests need no Spark."""

    rows: pa.Table

    def map_parts(self, task: RowsTask, schema: str) -> DataFrame:
        found = [tuple(row.values()) for part in task(iter([self.rows])) for row in part.to_pylist()]
        return cast(DataFrame, Collected(found))


@dataclass(frozen=True, slots=True)
class Collected:
    """As much of a frame as a follower asks of the answer of such a task."""

    found: list[tuple[Any, ...]]

    def collect(self) -> list[tuple[Any, ...]]:
        return self.found


@dataclass
class Scene:
    """A follower on storage of its own, and others after it."""

    log: LogSettings
    settings: PercolatorSettings
    follower: PercolatorFollower

    def restart(self) -> None:
        """Go on as a new process would: the old one is dead, or lives on and does not know it."""
        self.follower = make(self.log, self.settings)
        self.follower.prepare([LISTINGS, SEARCHES])

    def load(self, table: Table, rows: Mapping[Key, Row]) -> None:
        whole = pa.Table.from_pylist([dict(row) for row in rows.values()], arrow_schema(table))
        self.follower.load(table, LocalCopy(whole), MARK)

    def remarks(self) -> list[str]:
        return [*map(str, self.follower.remarks())]

    def apply(self, offset: int, listings: States | None = None, searches: States | None = None) -> None:
        self.follower.apply(batch(listings or {}, searches or {}, offset), at(offset))

    @property
    def topics(self) -> Topics:
        return Topics.of(self.log, self.settings, "alerts")

    def events(self) -> list[dict[str, Any]]:
        """All events, those of one query and row in order."""
        return [json.loads(record.value or b"") for record in records(self.log, self.topics.events.name)]

    def told(self) -> Pairs:
        """The matches that there are by the events; fails when one begins twice, or ends twice."""
        there: Pairs = set()
        for event in self.events():
            pair = (event["query"]["id"], event["row"]["id"])
            assert (pair in there) == (event["kind"] == "end of match"), event
            there ^= {pair}
        return there

    def present(self) -> Pairs:
        """The matches that there are by their own topic."""
        newest = {record.key: record.value for record in records(self.log, self.topics.present.name)}
        found = [json.loads(value) for value in newest.values() if value]
        return {(each["query"]["id"], each["row"]["id"]) for each in found}


def batch(listings: States, searches: States, offset: int) -> FeedBatch:
    states = {LISTINGS: listings, SEARCHES: searches}
    parts = {table.name: changed(table, found) for table, found in states.items() if found}
    return FeedBatch(parts, 1_700_000_000_000 + offset)


def make(log: LogSettings, settings: PercolatorSettings) -> PercolatorFollower:
    found = fed_follower(None, settings, Owner(log.prefix, "alerts"), log)
    assert isinstance(found, PercolatorFollower)
    return found


@pytest.fixture
def make_scene(search_url: str, kafka_bootstrap: str) -> Iterator[Callable[..., Scene]]:
    scenes: list[Scene] = []

    def begin(**further: Any) -> Scene:
        name = f"p{uuid.uuid4().hex[:12]}"
        log = LogSettings(bootstrap=kafka_bootstrap, prefix=name, partitions=2)
        values: dict[str, Any] = {
            "kind": "percolator",
            "url": search_url,
            "prefix": f"{name}-alerts",
            "queries": {"table": "saved_searches", "column": "query"},
            "tables": ["listings"],
        }
        settings = PercolatorSettings.model_validate(values | further)
        scene = Scene(log, settings, make(log, settings))
        scene.follower.prepare([LISTINGS, SEARCHES])
        scenes.append(scene)
        return scene

    yield begin
    for scene in scenes:
        scene.follower.close()
        delete_indexes(search_url, scene.log.prefix)


@pytest.fixture
def scene(make_scene: Callable[..., Scene]) -> Scene:
    """A follower that has copies of both tables, without rows, and a position."""
    found = make_scene()
    for table in (LISTINGS, SEARCHES):
        found.load(table, {})
    found.apply(1)
    return found
