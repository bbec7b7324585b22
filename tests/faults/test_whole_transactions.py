"""A task of Kafka Connect that ends within a transaction: nothing is lost, though one change can be several records."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from cdc.connect.capture import debezium_properties
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import halt, restart
from cdc.core.errors import HistoryLostError
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader, read_span
from cdc.log.names import change_topic, transaction_topic
from cdc.log.transaction_topic import read_ends_between
from tests.faults.losses.losses import slot_is_free
from tests.support.cdc_inprocess import bootstrap, catch_up, recapture_all, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

ITEMS: Final = TableName("public", "items")
ROWS: Final = 300
MOST_TRIES: Final = 15


@pytest.fixture
def pipeline(make_pipeline: MakePipeline) -> Pipeline:
    """One whose connector sends each record in a batch of its own."""
    made = make_pipeline(
        "CREATE TABLE items (id int PRIMARY KEY, n int)",
        f"INSERT INTO items SELECT n, n FROM generate_series(1, {ROWS}) AS n",
        tables=(str(ITEMS),),
        lake_only=True,
    )
    made.configure("connect:\n", "connect:\n  max_batch_size: 1\n  max_queue_size: 2\n")
    return made


def test_an_update_of_keys_is_whole_wherever_the_task_ends(pipeline: Pipeline, spark: SparkSession) -> None:
    bootstrap(pipeline, spark)
    move_keys(pipeline, ends=3)
    assert count_operations(pipeline) == {"d": ROWS, "c": ROWS}
    # else it was not in the middle
    assert sum(1 for _ in read_changes(pipeline)) > 2 * ROWS
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_without_our_plugin_what_is_lost_is_told_and_copied_again(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(debezium_properties, "WHOLE_TRANSACTIONS", "cdc.connect.NotInThisJar")
    bootstrap(pipeline, spark)
    for _ in range(MOST_TRIES):
        move_keys(pipeline, ends=1)
        if count_operations(pipeline) != {"d": ROWS, "c": ROWS}:
            break
    else:
        raise AssertionError("Debezium loses nothing any more: is our plugin still needed?")
    catch_up(pipeline, spark)
    told = capsys.readouterr().err
    assert "of updated keys: Kafka Connect was killed before it sent them" in told
    assert f"items is copied again: {ROWS} rows copied" in told
    assert verify(pipeline, spark).is_equal


def test_a_slot_that_is_made_anew_within_a_transaction_is_told(pipeline: Pipeline, spark: SparkSession) -> None:
    """Debezium itself looks for its place in the slot no more."""
    bootstrap(pipeline, spark)
    slot, capture = pipeline.settings.source.slot, pipeline.settings.connect
    with ConnectClient(capture.url) as client:
        begin_to_move(pipeline)
        halt(client, capture.connector)
        until(lambda: slot_is_free(pipeline), "nobody reads from the slot")
        pipeline.run(
            f"SELECT pg_drop_replication_slot('{slot}')",
            f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')",
        )
        client.resume(capture.connector)
    pipeline.run("INSERT INTO items VALUES (0, 0)")
    with pytest.raises(HistoryLostError):
        catch_up(pipeline, spark)
    recapture_all(pipeline, spark)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def begin_to_move(pipeline: Pipeline) -> None:
    """Change every key in one transaction; returns when the log has some of it."""
    prefix = pipeline.settings.log.prefix
    with Reader(pipeline.settings.log) as reader:
        enough = count_records(reader, prefix) + 20
        pipeline.run(f"UPDATE items SET id = id + {10 * ROWS}")
        until(partial(has_records, reader, prefix, enough), "the transaction is being sent")


def move_keys(pipeline: Pipeline, ends: int) -> None:
    """Change every key in one transaction, in which the task ends so often; returns when the log has its END."""
    capture, prefix = pipeline.settings.connect, pipeline.settings.log.prefix
    before = count_ends(pipeline)
    begin_to_move(pipeline)
    with Reader(pipeline.settings.log) as reader, ConnectClient(capture.url) as client:
        restart(client, capture.connector, whole=True)
        for _ in range(1, ends):
            enough = count_records(reader, prefix) + 20
            until(partial(has_records, reader, prefix, enough), "the transaction is being sent again")
            restart(client, capture.connector, whole=True)
    until(lambda: count_ends(pipeline) > before, "the transaction is whole")


def has_records(reader: Reader, prefix: str, count: int) -> bool:
    return count_records(reader, prefix) >= count


def count_records(reader: Reader, prefix: str) -> int:
    topic = change_topic(prefix, ITEMS)
    return sum(reader.end([topic])[topic].values())


def count_ends(pipeline: Pipeline) -> int:
    """The ENDs with changes of the table."""
    log = pipeline.settings.log
    topic = transaction_topic(log.prefix)
    with Reader(log) as reader:
        ends = read_ends_between(reader, topic, *read_span(reader, topic))
    return len(ends.touching(str(ITEMS)))


def count_operations(pipeline: Pipeline) -> Mapping[str, int]:
    """The changes of the last transaction by operation, each once."""
    found = dict[int, dict[int, str]]()
    for change in read_changes(pipeline):
        own = found.setdefault(change["source"]["txId"], {})
        own[change["transaction"]["data_collection_order"]] = change["op"]
    last = [*found[max(found)].values()]
    return {op: last.count(op) for op in sorted({*last}, reverse=True)}


def read_changes(pipeline: Pipeline) -> Iterator[Any]:
    log = pipeline.settings.log
    topic = change_topic(log.prefix, ITEMS)
    with Reader(log) as reader:
        starts, behind = reader.beginning([topic])[topic], reader.end([topic])[topic]
        for partition, end in behind.items():
            for record in reader.read(topic, partition, starts[partition], end):
                if record.value is not None:
                    yield json.loads(record.value)
