"""Verification while rows are written without a pause: it says no false difference, and finds each spoilt row."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
import psycopg
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.log.names import latest_topic
from cdc.run.status.stream_report import open_reports
from cdc.run.status.things import Verification
from cdc.run.verify.rolling.duty_cycle import DutyCycle
from cdc.run.verify.rolling.keep_verifying import open_rolling
from cdc.run.verify.rolling.source_pages import await_shown
from cdc.sinks.search.settings import SearchSettings
from tests.servers.test_pipeline import sign_as_ours
from tests.support.beside import repeated
from tests.support.cdc_inprocess import bootstrap, catch_up, following, status_of, verify
from tests.support.cdc_subprocess import LIMIT_SECONDS, started
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until
from tests.support.workload import ITEMS, ORDERS, SCHEMA

pytestmark = pytest.mark.timeout(1200)
TURNS = 3
BUSY = (
    "UPDATE orders SET total = total + 1 WHERE id > 100 AND id %% 400 = %(n)s %% 400",
    "INSERT INTO orders (id, customer) VALUES (1000000 + %(n)s, 'new')",
    "DELETE FROM orders WHERE id = 1000000 + %(n)s - 20",
    "UPDATE orders SET id = id + 2000000 WHERE id = 1000000 + %(n)s - 10",
    "UPDATE items SET what = what || '.' WHERE order_id = %(n)s %% 500",
)
SPOILT = {"lake": {7}, "search": {7, 8}, "latest": {7, 9}}
"""What the lake has wrong goes on to all who follow it."""


@contextmanager
def writing(pipeline: Pipeline, first: int) -> Iterator[None]:
    """Somebody writes some transactions a second, of all rows but the first hundred; new keys go on from `first`."""
    numbers = count(first + 1)
    with pipeline.servers.connect(pipeline.settings.source.dbname) as own:

        def write() -> None:
            number = next(numbers)
            with own.transaction():
                for statement in BUSY:
                    own.execute(statement.encode(), {"n": number})

        # the slowest machine of tests follows that, too: else what lies between grows, and nobody is equal in time
        with repeated(write, 0.2):
            yield


@contextmanager
def rolling(pipeline: Pipeline) -> Iterator[list[str]]:
    """A rolling verification that begins anew as soon as it is done; what it has said."""
    stopping, said = threading.Event(), list[str]()
    every_table = open_rolling(pipeline.opened(), [*pipeline.settings.followers], said.append, stopping, 0.01)
    thread = threading.Thread(target=every_table.run, daemon=True)
    thread.start()
    try:
        yield said
    finally:
        stopping.set()
        thread.join()


def count_equal(said: Sequence[str], table: str) -> int:
    """How many turns of a table have found it equal in each follower."""
    return sum(line.startswith(f"verify: {table}:") and line.count("is equal") == len(SPOILT) for line in said)


def results(pipeline: Pipeline) -> dict[str, Verification]:
    """What is kept of the verifications; the whole status, which shows it, asks all parts each time."""
    return dict(open_reports(pipeline.opened()).read_verifications())


def verdicts(pipeline: Pipeline) -> set[str]:
    return {found.verdict for found in results(pipeline).values()}


def differing(pipeline: Pipeline) -> dict[str, int]:
    return {name: found.keys for name, found in results(pipeline).items()}


def spoil(pipeline: Pipeline, spark: SparkSession) -> None:
    """A row each in the lake, the index and the topic becomes another one, as by a fault of ours."""
    lake = pipeline.settings.delta[1].path
    before = len([*Path(lake, "public/orders/_delta_log").glob("*.json")])
    spark.sql(f"UPDATE delta.`{lake}/public/orders` SET note = 'forged' WHERE id = 7")
    sign_as_ours(Path(lake, "public/orders"), before)
    search = pipeline.settings.followers["search"]
    assert isinstance(search, SearchSettings)
    with httpx.Client(base_url=f"{search.url}/{search.prefix}-public-orders") as client:
        found = client.post("/_delete_by_query?refresh=true", json={"query": {"term": {"id": 8}}})
        assert found.raise_for_status().json()["deleted"] == 1
    # the partition of a key is that of its writers
    producer = Producer({"bootstrap.servers": pipeline.settings.log.bootstrap, "partitioner": "murmur2_random"})
    topic = latest_topic(pipeline.settings.log.prefix, TableName.parse(ORDERS))
    producer.produce(topic, key=b'{"id":9}', value=b'{"id":9,"note":"forged"}')
    assert producer.flush(LIMIT_SECONDS) == 0


def check_open_transactions_are_waited_for(pipeline: Pipeline, patched: pytest.MonkeyPatch) -> None:
    """A commit of theirs may be in the log before the source shows it."""
    patched.setattr("cdc.run.verify.rolling.source_pages.SETTLE_SECONDS", 0.5)
    with psycopg.connect(pipeline.connection.info.dsn, password=pipeline.connection.info.password) as own:
        own.execute("SELECT pg_current_xact_id()")
        with pytest.raises(PreconditionError, match="are open for more than"):
            await_shown(pipeline.connection, DutyCycle())
    await_shown(pipeline.connection, DutyCycle())


def test_busy_tables_are_verified_for_ever(
    make_pipeline: MakePipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
    pipeline.configure("followers:\n", "verify:\n  share: 1\nfollowers:\n")
    bootstrap(pipeline, spark)
    with monkeypatch.context() as patched:
        check_open_transactions_are_waited_for(pipeline, patched)
    check_no_false_difference(pipeline, spark)
    catch_up(pipeline, spark)
    spoil(pipeline, spark)
    check_each_spoilt_row_is_found(pipeline, spark)


def check_no_false_difference(pipeline: Pipeline, spark: SparkSession) -> None:
    with following(pipeline, spark), writing(pipeline, 0):
        with rolling(pipeline) as said:
            until(lambda: sum("public.orders:" in line for line in said) >= TURNS, "turns have passed", LIMIT_SECONDS)
            assert not [line for line in said if "is not compared" in line]
            # documents from before lack the column, and are no other rows for that
            pipeline.run("ALTER TABLE items ADD COLUMN extra text")
            begun = len(said)
            until(lambda: count_equal(said[begun:], ITEMS) >= 2, "it is equal with its new column", LIMIT_SECONDS)
        assert not [line for line in said if "differs" in line]
        assert verdicts(pipeline) == {"equal"}
        assert dict(status_of(pipeline).verifications) == results(pipeline)
        # one comparison of all has a verdict, too, for all keys that rest for a moment
        report = verify(pipeline, spark)
        assert not report.has_differences, report.as_json()
        assert all(verdict.comparison for tables in report.followers.values() for verdict in tables.values())


def check_each_spoilt_row_is_found(pipeline: Pipeline, spark: SparkSession) -> None:
    with following(pipeline, spark), writing(pipeline, 500_000):
        pipeline.run("UPDATE orders SET ok = NOT ok WHERE id = 10")
        with rolling(pipeline):
            expected = {name: len(keys) for name, keys in SPOILT.items()}
            until(lambda: differing(pipeline) == expected, "each spoilt row is found", LIMIT_SECONDS, every=0.2)
        assert {found.differences for found in results(pipeline).values()} == {1}
        named = verify(pipeline, spark)
        assert {
            name: {int(key.key["id"] or 0) for key in verdict.comparison.keys}
            for name, tables in named.followers.items()
            for table, verdict in tables.items()
            if str(table) == ORDERS and verdict.comparison
        } == SPOILT
        pipeline.run("UPDATE orders SET ok = NOT ok WHERE id IN (7, 8, 9)")
        check_a_process_ends_cleanly(pipeline)
        until(
            lambda: {f.verdict for f in results(pipeline).values()} == {"equal"}, "what is repaired is told", every=0.2
        )


def check_a_process_ends_cleanly(pipeline: Pipeline) -> None:
    """`cdc verify --every` goes on where another has ended, and ends by SIGTERM with what it has found kept."""
    with started(pipeline, "verify", "--every", "10s") as running:
        running.wait_until(lambda: results(pipeline)["lake"].every_seconds == 10.0, "a turn is kept")
        running.wait_until(lambda: not any(differing(pipeline).values()), "what is repaired is equal")
        running.process.send_signal(signal.SIGTERM)
        until(lambda: running.ended is not None, "it ends")
        assert running.ended == 0, running.said
