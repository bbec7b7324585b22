"""What the tests of the search follower have in common: rows, batches, a follower on the real node."""

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from cdc.columns.feed import FeedBatch
from cdc.core.position import Lsn, Position
from cdc.core.table import Table
from cdc.sinks.search.follower import SearchFollower
from cdc.sinks.search.settings import SearchSettings
from tests.contract.fed import changed
from tests.contract.followers import bookmark
from tests.support.histories import THINGS
from tests.support.model import Key, Row
from tests.support.parts.removal import delete_indexes

ROWS: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": f"old {n}"} for n in range(7)}
MARK = bookmark(5)


def at(offset: int) -> Position:
    return Position(offset, Lsn(10 * offset), 500 + offset)


@pytest.fixture
def name(search_url: str) -> Iterator[str]:
    """Of a pipeline, whose indexes are deleted at the end."""
    own = f"s{uuid.uuid4().hex[:12]}"
    yield own
    delete_indexes(search_url, own)


@pytest.fixture
def follower(spark: SparkSession, search_url: str, name: str) -> SearchFollower:
    return started(spark, search_url, name)


def started(spark: SparkSession, url: str, name: str, **settings: Any) -> SearchFollower:
    chosen = SearchSettings(kind="search", url=url, **settings)
    found = SearchFollower(spark, chosen, name, "search")
    found.prepare([THINGS])
    return found


def one(table: Table, key: int, row: Row | None) -> FeedBatch:
    return FeedBatch({table.name: changed(table, {(key,): row})})


def written(number: int, text: str) -> Row:
    return {"id": number, "small": 1, "big": text}


def hits(url: str, index: str, query: dict[str, Any]) -> int:
    found = httpx.post(f"{url}/{index}/_search", json={"query": query}).raise_for_status().json()
    return int(found["hits"]["total"]["value"])


def reason(follower: SearchFollower) -> str:
    """Why the one table that is stopped is that."""
    [stop] = follower.stops().values()
    return str(stop)
