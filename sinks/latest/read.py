"""Reads the latest topics: their committed records, and the newest value of each key."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.names import KafkaColumn
from cdc.columns.rows import digest as digests
from cdc.columns.rows.digest import Digest
from cdc.columns.rows.row_prints import StoredRows
from cdc.columns.spark_tasks import run_in_tasks
from cdc.core.errors import HistoryLostError
from cdc.log import spark_options
from cdc.log.clients.reader import Reader, read_bounds
from cdc.log.settings import LogSettings

Pair = tuple[bytes, bytes | None]
"""A record's key and its value; None in a tombstone."""
MOST_KEYS: Final = 2_000_000
"""Keys in memory of a task (two hashes each, about 400 MB); a partition with more keys is read several times."""


def is_empty(log: LogSettings, topic: str) -> bool:
    """Is the topic empty, even of uncommitted records?"""
    with Reader(log, committed=False) as reader:
        return reader.beginning([topic]) == reader.end([topic])


def count_records(log: LogSettings, topic: str) -> int:
    """Count all records ever written to the topic, committed or not; 0 if there is no topic."""
    with Reader(log, committed=False) as reader:
        return sum(reader.end([topic])[topic].values())


def find_ends(log: LogSettings, topic: str) -> Mapping[int, int]:
    """Where the next record of each partition will be."""
    with Reader(log, committed=False) as reader:
        return reader.end([topic])[topic]


def read_since(log: LogSettings, topic: str, since: Mapping[int, int]) -> Mapping[bytes, bytes | None]:
    """The newest committed value of each key that has a record since these offsets; None for a tombstone."""
    _, until = read_bounds(log, topic)
    newest: dict[bytes, bytes | None] = {}
    with Reader(log) as reader:
        for partition, first in since.items():
            for record in reader.read(topic, partition, first, until[topic].get(partition, first)):
                newest[record.key or b""] = record.value
    return newest


def live_keys(log: LogSettings, topic: str) -> set[bytes]:
    """Find the keys with a committed value; reads the topic from its beginning."""
    start, until = read_bounds(log, topic)
    live: set[bytes] = set()
    with Reader(log) as reader:
        for partition, first in start[topic].items():
            for record in reader.read(topic, partition, first, until[topic][partition]):
                (live.discard if record.value is None else live.add)(record.key or b"")
    return live


def read_newest(spark: SparkSession, log: LogSettings, topic: str) -> DataFrame:
    """Read the newest value of every key, without tombstones: columns KEY and VALUE of `KafkaColumn`, both binary.

    Reads the records that are committed at the call.
    """
    start, until = read_bounds(log, topic)
    records = spark.read.format("kafka").options(**spark_options.batch_options(log, start, until)).load()
    value = F.struct(F.col(KafkaColumn.VALUE))
    latest = records.groupBy(KafkaColumn.KEY).agg(F.max_by(value, F.col(KafkaColumn.OFFSET)).alias("newest"))
    found = F.col("newest").getField(KafkaColumn.VALUE)
    return latest.where(found.isNotNull()).select(KafkaColumn.KEY, found.alias(KafkaColumn.VALUE))


def digest(spark: SparkSession, log: LogSettings, topic: str) -> Digest:
    """Compute the digest of the newest values that are committed at the call."""
    start, until = read_bounds(log, topic)
    places = [(number, first, until[topic][number]) for number, first in start[topic].items()]
    if not places:
        raise HistoryLostError(f"topic {topic} is gone", "run `cdc bootstrap` again")
    # a Spark job takes a twelfth of a second before its first row
    if sum(stop - first for _, first, stop in places) <= digests.SMALL_ROWS:
        with Reader(log) as reader:
            return sum((newest_values(partial(reader.read_pairs, topic, *place)) for place in places), Digest())
    # a task for each partition: all values of a key are in one
    read = partial(_digest_partitions, log=log, topic=topic, places=places)
    return digests.sum_answers(run_in_tasks(spark, len(places), read, digests.COLUMNS))


def read_stored(log: LogSettings, topic: str) -> Iterator[StoredRows]:
    """Read the records that are committed at the call, in this process: all of a key in their order."""
    start, until = read_bounds(log, topic)
    if not start[topic]:
        raise HistoryLostError(f"topic {topic} is gone", "run `cdc bootstrap` again")
    with Reader(log) as reader:
        for number, first in start[topic].items():
            for names, values in reader.read_columns(topic, number, first, until[topic][number]):
                yield StoredRows(partial(list, names), values, is_log=True)


def _digest_partitions(
    numbers: Iterable[int], log: LogSettings, topic: str, places: Sequence[tuple[int, int, int]]
) -> Iterator[pa.RecordBatch]:
    with Reader(log) as reader:
        yield from digests.to_answer(
            newest_values(partial(reader.read_pairs, topic, *places[number])) for number in numbers
        )


def newest_values(read: Callable[[], Iterable[Pair]], most: int = MOST_KEYS) -> Digest:
    """Compute the digest of the newest values among records.

    With more than `most` keys, the records are read several times, each time for a share of the keys by their hashes.
    """
    shares, found = deque([(0, 1)]), Digest()
    while shares:
        number, count = shares.popleft()
        newest: dict[bytes, bytes] = {}
        for name, value in read():
            # hashes have one size, so MOST_KEYS bounds the memory
            key = digests.hash_document(name)
            if count > 1 and _share(key, count) != number:
                continue
            if value is None:
                newest.pop(key, None)
            else:
                newest[key] = digests.hash_document(value)
            while len(newest) > most:
                # split the share: the other half of its keys is read later
                shares.append((number + count, 2 * count))
                count *= 2
                newest = {key: value for key, value in newest.items() if _share(key, count) == number}
        found += digests.digest_of_hashes(newest.values())
    return found


def _share(key: bytes, count: int) -> int:
    return int.from_bytes(key[:8], "little") % count
