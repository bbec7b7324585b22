"""What programs call: tables at one cut, the changes of a table, and reading their own writes."""

import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import httpx
import polars
import pytest
from psycopg.rows import dict_row
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cdc
from cdc.core.errors import ConfigurationError, HistoryLostError, PreconditionError, UnreachableError
from cdc.core.position import parse_lsn
from cdc.core.table import TableName
from cdc.run.read.cuts import LakeCut
from cdc.sinks.opensearch.layout import index_name
from cdc.sinks.search.settings import SearchSettings
from tests.support.cdc_inprocess import bootstrap, catch_up, following
from tests.support.parts.pipelines import NO_BLANK, MakePipeline, Pipeline
from tests.support.waiting import until

ACCOUNTS, TOTAL = 20, 2000
SAVINGS, CHECKING = "public.savings", "public.checking"
BANK = (
    *(f"CREATE TABLE {name} (id int PRIMARY KEY, amount int)" for name in (SAVINGS, CHECKING)),
    *(f"INSERT INTO {name} SELECT n, 50 FROM generate_series(1, {ACCOUNTS}) AS n" for name in (SAVINGS, CHECKING)),
)
WRITERS, READS = 8, int(os.environ.get("CDC_TEST_READS", "60"))
SEEN = "views:\n  shop.seen:\n    key: [id]\n    sql: SELECT id, text, 1 AS one FROM notes\n\n"


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Callable[[Pipeline], None]:
    """Gives this process what a pipeline's file refers to."""

    def give(pipeline: Pipeline) -> None:
        for name, value in pipeline.environ.items():
            monkeypatch.setenv(name, value)

    return give


def move_money(pipeline: Pipeline, done: threading.Event, seed: int) -> None:
    """Move money between the two tables, a transaction each, until told to end."""
    rng = random.Random(seed)
    with pipeline.servers.connect(pipeline.settings.source.dbname) as connection:
        while not done.is_set():
            amount, one, other = rng.randrange(1, 9), *rng.sample((SAVINGS, CHECKING), 2)
            with connection.transaction():
                for name, change in ((one, -amount), (other, amount)):
                    account = rng.randrange(1, ACCOUNTS + 1)
                    connection.execute(
                        f"UPDATE {name} SET amount = amount + %s WHERE id = %s".encode(), (change, account)
                    )


def read_sums(pipeline: Pipeline) -> set[str]:
    """Read both tables at the newest cut so often, and at so many cuts; the LSNs of these."""
    cuts = set[str]()
    with cdc.open(pipeline.config) as opened:
        for reads in count(1):
            cut = opened.cut(SAVINGS, CHECKING)
            tables = [polars.scan_delta(each.path, version=each.version) for each in cut.tables.values()]
            assert sum(each.select(polars.sum("amount")).collect().item() for each in tables) == TOTAL, cut
            cuts.add(cut.lsn)
            # reads are quicker than cuts
            if reads >= READS and len(cuts) >= READS / 20:
                return cuts
    raise AssertionError("unreachable")


def test_the_sum_is_right_at_every_cut(
    make_pipeline: MakePipeline, spark: SparkSession, environ: Callable[[Pipeline], None]
) -> None:
    pipeline = make_pipeline(*BANK, tables=(SAVINGS, CHECKING), lake_only=True, folder_name=NO_BLANK)
    bootstrap(pipeline, spark)
    environ(pipeline)
    done, began = threading.Event(), datetime.now(UTC)
    with following(pipeline, spark), ThreadPoolExecutor(WRITERS) as threads:
        try:
            for seed in range(WRITERS):
                threads.submit(move_money, pipeline, done, seed)
            cuts = read_sums(pipeline)
        finally:
            done.set()
    last = cdc.cut(config=pipeline.config)
    with cdc.open(pipeline.config) as opened, pytest.raises(ConfigurationError, match="was opened without Spark"):
        opened.read()
    moments: list[str | datetime] = [*sorted(cuts, key=parse_lsn)[:3], last.lsn, last.committed_at]
    for at in moments:
        frames = cdc.read(spark, at=at, config=pipeline.config)
        assert sum(frames[name].agg({"amount": "sum"}).collect()[0][0] for name in frames) == TOTAL
        assert not isinstance(at, str) or frames.cut.lsn == at
    with pytest.raises(HistoryLostError, match="no cut at or before"):
        cdc.cut(at=began - timedelta(days=1), config=pipeline.config)
    with pytest.raises(ConfigurationError, match=r"no table or view public\.nothing"):
        cdc.cut("public.nothing", config=pipeline.config)


def find_note(pipeline: Pipeline, opened: cdc.PipelineReader, follower: str, number: int) -> str | None:
    """A note's text as a reader of the follower sees it."""
    if follower == "search":
        settings = pipeline.settings.followers["search"]
        assert isinstance(settings, SearchSettings)
        index = index_name(settings.prefix, TableName("public", "notes"))
        found = httpx.get(f"{settings.url}/{index}/_search", params={"q": f"id:{number}"}).json()["hits"]["hits"]
        return found[0]["_source"]["text"] if found else None
    name = "public.notes" if follower == "lake" else "shop.seen"
    table = opened.cut(name).tables[name]
    rows = polars.scan_delta(table.path, version=table.version).filter(polars.col("id") == number).collect()
    return rows["text"][0] if len(rows) else None


def write_note(pipeline: Pipeline, number: int) -> str:
    """Write it; returns its token."""
    with pipeline.servers.connect(pipeline.settings.source.dbname) as connection:
        connection.execute("INSERT INTO notes VALUES (%s, %s)", (number, f"note {number}"))
        # whatever rows a program's connection makes
        connection.row_factory = dict_row
        with connection.transaction(), pytest.raises(PreconditionError, match="commit first"):
            cdc.token(connection)
        return cdc.token(connection)


CLIENTS, WRITES = int(os.environ.get("CDC_TEST_CLIENTS", "10")), int(os.environ.get("CDC_TEST_WRITES", "60"))


def test_clients_read_their_own_writes(
    make_pipeline: MakePipeline, spark: SparkSession, environ: Callable[[Pipeline], None]
) -> None:
    notes = "CREATE TABLE notes (id int PRIMARY KEY, text text)"
    pipeline = make_pipeline(notes, tables=("public.notes",), folder_name=NO_BLANK)
    pipeline.configure("followers:\n", SEEN + "followers:\n")
    bootstrap(pipeline, spark)
    environ(pipeline)

    def write_and_read(client: int) -> None:
        # what one keeps open shows each of its writes
        with cdc.open(pipeline.config) as opened:
            for number in range(client, WRITES, CLIENTS):
                token, follower = write_note(pipeline, number), ("lake", "views", "search")[number % 3]
                assert parse_lsn(opened.wait(token, follower, seconds=120)) >= parse_lsn(token)
                assert find_note(pipeline, opened, follower, number) == f"note {number}"

    with following(pipeline, spark), ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(write_and_read, range(CLIENTS)))
    token = cdc.token(pipeline.connection)
    with pytest.raises(UnreachableError, match=f"has not shown {token} within 0.2 s"):
        cdc.wait(token, "search", seconds=0.2, config=pipeline.config)
    with pytest.raises(ConfigurationError, match="'x' is no token"):
        cdc.wait("x", "lake", config=pipeline.config)
    with pytest.raises(ConfigurationError, match="there is no follower nobody"):
        cdc.wait(token, "nobody", config=pipeline.config)


def test_changes_behind_a_cut_are_all_that_its_rows_lack(
    make_pipeline: MakePipeline, spark: SparkSession, environ: Callable[[Pipeline], None], tmp_path: Path
) -> None:
    things = "CREATE TABLE things (id int PRIMARY KEY, text text)"
    # not compressed, so that a long value is sent with its own changes only
    external = "ALTER TABLE things ALTER text SET STORAGE EXTERNAL"
    pipeline = make_pipeline(things, external, tables=("public.things",), lake_only=True)
    bootstrap(pipeline, spark)
    environ(pipeline)
    pipeline.run("INSERT INTO things SELECT n, repeat(md5(n::text), 200) FROM generate_series(1, 9) AS n")
    catch_up(pipeline, spark)
    cut = cdc.cut(config=pipeline.config)
    pipeline.run(
        "UPDATE things SET id = id + 100 WHERE id = 1",
        "UPDATE things SET text = 'new' WHERE id = 2",
        "DELETE FROM things WHERE id = 3",
        "ALTER TABLE things ADD COLUMN note int",
    )
    catch_up(pipeline, spark)
    pipeline.run("INSERT INTO things VALUES (10, NULL, 5)", "TRUNCATE things")
    catch_up(pipeline, spark)
    changes = cdc.changes(spark, "public.things", after=cut, config=pipeline.config)
    query = changes.writeStream.format("memory").queryName("seen").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    rows = spark.table("seen").orderBy("_lsn", "_number").collect()
    assert [(row["_change"], row["id"], row["text"], row["note"], row["_unsent"]) for row in rows] == [
        ("delete", 1, None, None, []),
        ("insert", 101, None, None, ["text"]),
        ("update", 2, "new", None, []),
        ("delete", 3, None, None, []),
        ("insert", 10, None, 5, []),
        ("truncate", None, None, None, []),
    ]
    assert all(row["_lsn"] > parse_lsn(cut.lsn) for row in rows)
    moments = [row["_committed_at"] for row in rows]
    assert moments == sorted(moments)


THINGS = "public.things"


class Job:
    """A program's own job over the changes of a table, with a checkpoint in `folder`; `rows` has what came."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, folder: Path) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._folder = folder
        self.rows = list[Row]()

    def start(self, after: LakeCut | None = None, *, forever: bool = False) -> StreamingQuery:
        changes = cdc.changes(self._spark, THINGS, after=after, config=self._pipeline.config)
        writer = changes.writeStream.foreachBatch(lambda frame, _: self.rows.extend(frame.collect()))
        timed = writer.trigger(processingTime="200 milliseconds") if forever else writer.trigger(availableNow=True)
        return timed.option("checkpointLocation", str(self._folder)).start()

    def run(self, after: LakeCut | None = None) -> list[tuple[str, int]]:
        """Read what there is; the changes that came now, with their ids."""
        self.rows.clear()
        self.start(after).awaitTermination()
        return [(row["_change"], row["id"]) for row in sorted(self.rows, key=lambda row: (row["_lsn"], row["_number"]))]


def test_changes_of_a_table_that_was_copied_again(
    make_pipeline: MakePipeline, spark: SparkSession, environ: Callable[[Pipeline], None], tmp_path: Path
) -> None:
    """A copy begins the table's changes anew, whatever the topic still has from before it."""
    made = "CREATE TABLE things (id int PRIMARY KEY, text text, gone int)"
    pipeline = make_pipeline(made, tables=(THINGS,), lake_only=True)
    bootstrap(pipeline, spark)
    environ(pipeline)
    old, late, fresh = (Job(pipeline, spark, tmp_path / name) for name in ("old", "late", "fresh"))
    pipeline.run("INSERT INTO things SELECT n, 'a', n FROM generate_series(1, 3) AS n")
    catch_up(pipeline, spark)
    before = cdc.cut(config=pipeline.config)
    for job in (old, late):
        assert job.run() == [("insert", 1), ("insert", 2), ("insert", 3)]
    copy_ahead_of_the_lake(pipeline, spark, old)
    # right behind the copy: nothing of the table came since
    cut = cdc.cut(config=pipeline.config)
    pipeline.run("DELETE FROM things WHERE id = 2")
    catch_up(pipeline, spark)
    assert fresh.run(cut) == [("delete", 2)]
    # one that had read everything before the copy goes on; the other one has a gap
    assert old.run() == [("delete", 2)]
    with pytest.raises(StreamingQueryException, match=r"was copied again at .*start it with a new checkpoint"):
        late.run()
    with pytest.raises(PreconditionError, match=r"was copied again at .*begin at a newer one"):
        cdc.changes(spark, THINGS, after=before, config=pipeline.config)
    check_that_jobs_pass_an_altered_table(pipeline, spark, fresh, tmp_path)


def copy_ahead_of_the_lake(pipeline: Pipeline, spark: SparkSession, job: Job) -> None:
    """Copy the table when the log has changes that the lake has not read; `job` reads them."""
    pipeline.run(*(f"UPDATE things SET text = 'b{n}' WHERE id = 1" for n in range(5)))
    job.rows.clear()
    running = job.start(forever=True)
    until(lambda: len(job.rows) >= 5, "the log has them")
    running.processAllAvailable()
    running.stop()
    assert [(row["_change"], row["id"]) for row in job.rows] == [("update", 1)] * 5
    pipeline.opened().lake_follower.tables.stop({TableName.parse(THINGS): "it is altered"})
    with pytest.raises(PreconditionError, match=f"it is altered → .*`cdc bootstrap --again {THINGS}`"):
        cdc.changes(spark, THINGS, config=pipeline.config)
    bootstrap(pipeline, spark, THINGS)
    catch_up(pipeline, spark)


def check_that_jobs_pass_an_altered_table(pipeline: Pipeline, spark: SparkSession, job: Job, folder: Path) -> None:
    """The job ends at the first row with other columns; its remedy is followed, and works."""
    told = r"columns have changed.*with a new checkpoint, behind a cut of now"
    running = job.start(forever=True)
    pipeline.run("INSERT INTO things VALUES (10, 'a', 10)")
    until(lambda: any(row["id"] == 10 for row in job.rows), "it runs")
    pipeline.run(
        # a date is sent as a number, too
        "ALTER TABLE things ALTER gone TYPE date USING date '2024-01-01' + gone",
        "INSERT INTO things VALUES (11, 'b', '2024-02-29')",
    )
    with pytest.raises(StreamingQueryException, match=told):
        running.awaitTermination(120)
    assert not [row for row in job.rows if row["id"] == 11]
    with pytest.raises(StreamingQueryException, match=told):
        job.run()
    pipeline.run("ALTER TABLE things DROP COLUMN gone", "ALTER TABLE things RENAME text TO note")
    catch_up(pipeline, spark)
    with pytest.raises(StreamingQueryException, match="start it with a new checkpoint, behind a cut of now"):
        job.run()
    anew, cut = Job(pipeline, spark, folder / "anew"), cdc.cut(config=pipeline.config)
    assert anew.run(cut) == []
    pipeline.run("UPDATE things SET note = 'c' WHERE id = 11")
    catch_up(pipeline, spark)
    assert anew.run() == [("update", 11)]
