"""Unmistakable values in masked columns and filtered rows: no byte of them is in any file, topic, index, page or line.

Beside each stands a control in a column that is not masked, which every one of these searches finds.
"""

import logging
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyspark.sql import SparkSession

from cdc.__main__ import main
from tests.servers.everyday.test_serve import read_all, serving
from tests.support.cdc_inprocess import Following, bootstrap, following, lend_session, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(1200)
WORD, CONTROL = f"canary{secrets.token_hex(6)}", f"control{secrets.token_hex(6)}"
PRESET = f"preset{secrets.token_hex(6)}"
"""A column's default, which is schema: only the log of a Connect at the level DEBUG has it."""
SECRET = f"secret{secrets.token_hex(12)}"
MADE = (
    "CREATE TABLE people (id int PRIMARY KEY, email text, card text, phone text, notes text NOT NULL, token text,"
    f" label text, amount numeric(5, 3), preset text DEFAULT '{PRESET}')",
    "CREATE TABLE keyed (owner text PRIMARY KEY, label text)",
    "CREATE TABLE whole (id int PRIMARY KEY, token text, state text, label text)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
)
BLOCKS = """  mask_secret: ${env:CDC_TEST_SECRET}
  mask:
    public.people: {email: hash, card: last4, phone: "word:withheld", notes: null, token: drop, preset: hash}
    public.keyed: {owner: hash}
    public.whole: {token: drop}
  where:
    public.whole: state <> 'draft'
"""
VIEWS = """history: [public.people, public.whole]
views:
  public.shown:
    key: [id]
    sql: SELECT id, email, card, phone, notes, label FROM public.people
"""
LOGGERS = ("io.debezium", "org.apache.kafka.connect.runtime")


@pytest.fixture
def pipeline(make_pipeline: MakePipeline) -> Pipeline:
    made = make_pipeline(*MADE, tables=("public.people", "public.keyed", "public.whole"))
    made.environ["CDC_TEST_SECRET"] = SECRET
    made.configure("  on_schema_change:", f"{BLOCKS}  on_schema_change:")
    made.configure("\nfollowers:\n", f"\n{VIEWS}followers:\n")
    return made


def insert(pipeline: Pipeline, n: int, amount: str = "1") -> None:
    pipeline.run(
        f"INSERT INTO people VALUES ({n}, '{WORD}-email{n}', '{WORD}-card-{n + 1000}', '{WORD}-phone{n}',"
        f" '{WORD}-notes{n}', '{WORD}-token{n}', '{CONTROL}{n}', '{amount}')",
        f"INSERT INTO keyed VALUES ('{WORD}-owner{n}', '{CONTROL}{n}')",
        f"INSERT INTO whole VALUES ({n}, '{WORD}-whole{n}', 'sent', '{CONTROL}{n}')",
        f"INSERT INTO whole VALUES (-{n}, 'none', 'draft', '{WORD}-draft{n}')",
    )


@contextmanager
def debugging(pipeline: Pipeline) -> Iterator[None]:
    """Connect logs all but what it reads from its sockets."""

    def tell(level: str) -> None:
        for name in LOGGERS:
            url = f"{pipeline.settings.connect.url.rstrip('/')}/admin/loggers/{name}"
            httpx.put(url, json={"level": level}).raise_for_status()

    tell("DEBUG")
    try:
        yield
    finally:
        tell("INFO")


def change(pipeline: Pipeline) -> None:
    """Everything that may happen to rows, those that are masked and filtered among them."""
    insert(pipeline, 2)
    pipeline.run(
        f"UPDATE people SET email = '{WORD}-again', token = '{WORD}-again', label = '{CONTROL}-again' WHERE id = 1",
        f"UPDATE keyed SET owner = '{WORD}-moved' WHERE label = '{CONTROL}1'",
        f"UPDATE keyed SET label = '{CONTROL}-again' WHERE owner = '{WORD}-owner2'",
        # in, out, and unseen
        f"UPDATE whole SET state = 'sent', label = '{CONTROL}-in' WHERE id = -1",
        f"UPDATE whole SET state = 'draft', label = '{WORD}-out' WHERE id = 1",
        f"UPDATE whole SET label = '{WORD}-unseen' WHERE id = -2",
        "DELETE FROM whole WHERE id IN (2, -2)",
    )
    insert(pipeline, 3)
    pipeline.run("DELETE FROM people WHERE id = 3", f"DELETE FROM keyed WHERE owner = '{WORD}-owner3'")
    # held as a dead letter
    insert(pipeline, 4, "NaN")


def alter(pipeline: Pipeline) -> None:
    """A column is added, and written before anybody has copied the table again."""
    pipeline.run(
        "UPDATE people SET amount = 2 WHERE id = 4",
        "ALTER TABLE people ADD COLUMN further text",
        f"UPDATE people SET further = 'further{CONTROL}', phone = '{WORD}-phone' WHERE id = 2",
    )


@pytest.fixture
def said_by(pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Runs a verb here; what it said."""

    def run(*words: str) -> str:
        with monkeypatch.context() as patched:
            lend_session(spark, patched)
            pipeline.set_environ(patched)
            main(["--config", str(pipeline.config), "--debug", *words])
        said = capsys.readouterr()
        return str(said.out + said.err)

    return run


def hold_and_copy_again(pipeline: Pipeline, running: Following, said_by: Any) -> dict[str, str]:
    """A refused value, and a schema's change; what is said of them."""
    until(lambda: bool(pipeline.opened().lake_follower.letters.all()), "a value is refused", 60)
    place = next(iter(pipeline.opened().lake_follower.letters.all())).location
    told = {"dead letter": said_by("dead-letters", "show", "--values", place)}
    told["keys held"] = said_by("dead-letters", "list", "--values")
    alter(pipeline)
    running.wait_for("is copied again")
    return {**told, "follow": "\n".join(running.said)}


def ask(pipeline: Pipeline, said_by: Any) -> dict[str, str]:
    """What page and verbs say."""
    with serving(pipeline, pipeline.config) as (address, _):
        page = read_all(address)
    return {
        "page": page,
        "trace": said_by("trace", "--values", "public.people", "1"),
        # what was typed is in no answer
        "trace by a hashed key": said_by("trace", "--values", "public.keyed", f"{WORD}-moved"),
        "status": said_by("status", "--json"),
        "plan": said_by("plan"),
        "doctor": said_by("doctor"),
    }


def list_indexes(pipeline: Pipeline) -> list[str]:
    """Their addresses."""
    url, name = pipeline.servers.values.search_url.rstrip("/"), pipeline.settings.pipeline.name
    return [f"{url}/{i['index']}" for i in httpx.get(f"{url}/_cat/indices?format=json").json() if name in i["index"]]


def spoil_index(pipeline: Pipeline) -> None:
    """Take a document out of every index, so that a verification differs."""
    for index in list_indexes(pipeline):
        query = {"query": {"match_all": {}}, "max_docs": 1}
        httpx.post(f"{index}/_delete_by_query?refresh=true", json=query).raise_for_status()


def files_of(folder: Path, since: float) -> Iterator[bytes]:
    """The files that were written since, but for the source's own."""
    # unlike `rglob`, it goes on where a folder is deleted meanwhile: that of a topic of another test
    for place, _, names in os.walk(folder):
        for path in (Path(place) / name for name in names if "postgres" not in Path(place).parts):
            with suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink() and path.stat().st_mtime >= since:
                    yield path.read_bytes()


def lake_of(folder: Path) -> Iterator[bytes]:
    """The rows of every file of a table, a history, a view or a copy, also of those that no version has any more."""
    for path in folder.rglob("*.parquet"):
        yield repr(pq.read_table(path).to_pydict()).encode()


def topics_of(pipeline: Pipeline) -> Iterator[bytes]:
    """All keys, values and headers of all topics of the pipeline."""
    log = pipeline.settings.log
    consumer = Consumer({"bootstrap.servers": log.bootstrap, "group.id": "canaries", "enable.partition.eof": True})
    found = consumer.list_topics(timeout=30).topics
    places = [
        TopicPartition(name, partition, OFFSET_BEGINNING)
        for name, topic in found.items()
        if name.startswith(log.prefix)
        for partition in topic.partitions
    ]
    consumer.assign(places)
    # by partition: one that is written to meets its end again and again
    ended = set[tuple[str | None, int | None]]()
    try:
        while len(ended) < len(places):
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                ended.add((message.topic(), message.partition()))
                continue
            yield (message.key() or b"") + b" " + (message.value() or b"") + repr(message.headers()).encode()
    finally:
        consumer.close()


def indexes_of(pipeline: Pipeline) -> Iterator[bytes]:
    for index in list_indexes(pipeline):
        httpx.post(f"{index}/_refresh")
        yield httpx.get(index).content
        yield httpx.get(f"{index}/_search?size=1000").content


def search_all(pipeline: Pipeline, since: float, told: Mapping[str, str]) -> dict[str, bytes]:
    home, config = pipeline.servers.home, pipeline.config.parent
    connect, connector = pipeline.settings.connect.url.rstrip("/"), pipeline.settings.connect.connector
    outputs: dict[str, Iterator[bytes]] = {
        "files of the pipeline": files_of(config, since),
        "rows of the lake": lake_of(config),
        "topics": topics_of(pipeline),
        "indexes": indexes_of(pipeline),
        "connector": iter([httpx.get(f"{connect}/connectors/{connector}?expand=status").content]),
    }
    if home:
        outputs |= {
            "logs of parts": files_of(home.logs, since),
            "files of Kafka": files_of(home.folder("kafka"), since),
            "files of the index": files_of(home.folder("search"), since),
        }
    return {name: b"\n".join(found) for name, found in outputs.items()} | {k: v.encode() for k, v in told.items()}


CONTROLLED = {
    "rows of the lake",
    "topics",
    "indexes",
    "trace",
    "dead letter",
    "files of Kafka",
    "files of the pipeline",
}
"""Outputs that have values of rows at all."""


def test_no_masked_value_and_no_filtered_row_is_anywhere(
    pipeline: Pipeline, spark: SparkSession, said_by: Any, caplog: pytest.LogCaptureFixture
) -> None:
    since, told = time.time() - 1, dict[str, str]()
    insert(pipeline, 1)
    caplog.set_level(logging.DEBUG)
    with debugging(pipeline):
        bootstrap(pipeline, spark)
        with following(pipeline, spark) as running:
            change(pipeline)
            told |= hold_and_copy_again(pipeline, running, said_by)
            assert verify(pipeline, spark).is_equal
            spoil_index(pipeline)
            told["verify"] = said_by("verify")
            assert "differ" in told["verify"]
        told |= ask(pipeline, said_by)
    told["lines of logs"] = caplog.text
    found = search_all(pipeline, since, told)
    assert len(found) >= 12
    assert {name for name, held in found.items() if WORD.encode() in held} == set()
    assert {name for name, held in found.items() if PRESET.encode() in held} <= {"logs of parts"}
    assert {name for name, held in found.items() if SECRET.encode() in held} <= {"connector", "files of Kafka"}
    assert CONTROLLED - {name for name, held in found.items() if CONTROL.encode() in held} == set()
