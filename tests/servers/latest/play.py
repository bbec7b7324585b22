"""What the tests of the latest log do again and again."""

from pyspark.sql import SparkSession

from cdc.columns.feed import FeedBatch
from cdc.core.position import Lsn, Position
from cdc.core.table import Table
from cdc.log.clients.reader import Reader, Record, read_bounds
from cdc.log.settings import LogSettings
from cdc.sinks.latest.follower import LatestFollower
from tests.contract.fed import changed, copy_of
from tests.contract.followers import bookmark
from tests.support.model import Key, Row

ROWS: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": f"old {n}"} for n in range(7)}
MARK = bookmark(5)


def at(offset: int) -> Position:
    return Position(offset, Lsn(10 * offset), 500 + offset, {"topic": {0: offset}})


def row(number: int, text: str) -> Row:
    return {"id": number, "small": 1, "big": text}


def loaded(spark: SparkSession, follower: LatestFollower, *tables: Table) -> LatestFollower:
    follower.prepare(tables)
    for table in tables:
        follower.load(table, copy_of(spark, table, ROWS), MARK)
    return follower


def one(table: Table, states: dict[Key, Row | None]) -> FeedBatch:
    return FeedBatch({table.name: changed(table, states)})


def records(log: LogSettings, topic: str) -> list[Record]:
    """What a consumer of committed records reads from the beginning, partition by partition."""
    # a commit is answered before its records can be read
    starts, ends = read_bounds(log, topic)
    with Reader(log) as reader:
        return [record for p, end in ends[topic].items() for record in reader.read(topic, p, starts[topic][p], end)]
