"""The whole path with the lake on a real object store: copied, followed, killed, verified, read by others.

Its folder's name has a blank, an apostrophe and more. Its last part is on a cluster, whose workers have the documented
packages alone: there a table joins, and a history, views and saved searches begin.
"""

import json
import random
from collections.abc import Sized
from contextlib import suppress
from functools import partial
from pathlib import Path

import polars
import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from cdc import programs
from cdc.connect.source.heartbeat import heartbeat_query, slot_lsn
from cdc.core.position import parse_lsn
from cdc.run.follow.lake.lake_stream import LakeStream
from cdc.run.pipeline import select_followers
from cdc.sinks.lake.metadata.cuts import Cuts
from cdc.sinks.lake.settings import SCHEME
from tests.servers.second_paths.everything import Column, check_changes
from tests.support.cdc_inprocess import bootstrap, catch_up, following, verify
from tests.support.cdc_subprocess import cdc_in_turn, started
from tests.support.kill_points import kill, writes
from tests.support.parts.cluster_fixture import Cluster
from tests.support.parts.object_store_fixture import KEY, SECRET, S3Server, delta_rs_options, reach
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.parts.quick_spark import QUICK_BLOCK
from tests.support.waiting import until
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

pytestmark = pytest.mark.timeout(1800)
CHANGES = 300
ODD_NAME = " my shop's \u00fc (1) #2 100%"
SEARCHES = "public.searches"
STATEMENTS = (
    "CREATE TABLE searches (id int PRIMARY KEY, query jsonb)",
    """INSERT INTO searches SELECT g, jsonb_build_object('term', jsonb_build_object('customer', 'c' || g))
       FROM generate_series(1, 20) g""",
)
DERIVED = """history: [public.orders]
views:
  public.totals:
    key: [customer]
    sql: SELECT customer, count(*) AS n FROM public.orders GROUP BY customer
  public.ranks:
    key: [order_id, line]
    # no key leads to a rank: the workers compute all of it
    sql: SELECT order_id, line, rank() OVER (ORDER BY order_id, line) AS place FROM public.items
  public.minutes:
    key: [minute]
    final_after: 1 minute
    sql: SELECT window.start AS minute, count(*) AS n FROM orders GROUP BY window(at, '1 minute')
"""
FURTHER = """  matches:
    kind: percolator
    url: {url}
    queries: {{table: public.searches, column: query}}
    tables: [public.orders]
  found:
    kind: search
    url: {url}
    tables: [public.searches, public.totals]
  newest:
    kind: latest
    tables: [public.searches, public.totals]
"""


def derive(pipeline: Pipeline) -> None:
    """Add a table, a history, views, and a follower of each other kind."""
    further = FURTHER.format(url=pipeline.servers.values.search_url)
    pipeline.configure(f"- {ITEMS}\n", f"- {ITEMS}\n    - {SEARCHES}\n")
    pipeline.configure("followers:\n", f"{DERIVED}followers:\n{further}")


def move_to(cluster: Cluster, pipeline: Pipeline) -> None:
    """Let a cluster do all further work, by settings of which one is a secret."""
    pipeline.configure("master: local[2]", f"master: {cluster.master}\n  python: {cluster.python}")
    secret = "    spark.hadoop.fs.azure.account.key.ours: ${env:CDC_TEST_LAKE_SECRET}\n"
    pipeline.configure("conf: {}\n", f"conf:\n{QUICK_BLOCK}{secret}")


def on_store(pipeline: Pipeline, server: S3Server) -> Path:
    """Put the pipeline's lake into a bucket of its own; the folder of its objects."""
    bucket = server.bucket()
    pipeline.environ["CDC_TEST_LAKE_SECRET"] = SECRET
    pipeline.configure(
        "    path: lake\n",
        f"    path: {SCHEME}{bucket}/lake\n    small_run_changes: 100\n    s3:\n      endpoint: {server.endpoint}\n"
        f"      access_key_id: {KEY}\n      secret_access_key: ${{env:CDC_TEST_LAKE_SECRET}}\n"
        "      path_style: true\n      allow_http: true\n",
    )
    return server.folder / bucket / "lake"


def commands() -> list[str]:
    """The command lines of what this process has started, and what that has."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found.append(" ".join(process.cmdline()))
    return found


def check_commands(lines: list[str]) -> None:
    """Nobody who lists processes learns a key."""
    assert [line for line in lines if "SparkSubmit" in line]
    assert [line for line in lines if "CoarseGrainedExecutorBackend" in line]
    assert not [line for line in lines if SECRET in line]


def test_copied_followed_killed_and_verified(
    make_pipeline: MakePipeline,
    s3_server: S3Server,
    cluster: Cluster,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last part is on a cluster, whose executors have the keys from nowhere but their tasks."""
    pipeline = make_pipeline(*SCHEMA, *STATEMENTS, tables=(ORDERS, ITEMS), lake_only=True, folder_name=ODD_NAME)
    lake = on_store(pipeline, s3_server)
    bootstrap(pipeline, spark)
    work = Workload(pipeline.connection, random.Random(21))
    with writes(work, CHANGES):
        kill(pipeline, "follow", "lake.table.committed")
    work.write(100)
    # the session of the tests is no pipeline's own, which is told of its store
    reach(spark, s3_server.access)
    catch_up(pipeline, spark)
    pipeline.set_environ(monkeypatch)
    check_rest(pipeline, spark, monkeypatch)
    cut = programs.cut(ORDERS, config=pipeline.config)
    derive(pipeline)
    move_to(cluster, pipeline)
    join(pipeline)
    work.write(100)
    token = programs.token(pipeline.connection)
    submit(pipeline)
    wait_everywhere(pipeline, token)
    assert verify(pipeline, spark).is_equal
    options = delta_rs_options(s3_server.access)
    check_changes(pipeline, spark, cut, Column(ORDERS, "customer"), tmp_path / "changes", options)
    check_readers(pipeline, s3_server)
    check_secrets(pipeline, lake)


def has_grown(found: Sized, before: int) -> bool:
    return len(found) > before


def check_rest(pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats alone get no cut for a while, and whoever waits gets one at once."""
    monkeypatch.setattr("cdc.sinks.lake.pace.STORE_REST_SECONDS", float("inf"))
    rested, really_asked, opened = list[bool](), LakeStream._may_rest, pipeline.opened()
    cuts, source = opened.table_cuts, opened.settings.source

    def ask(stream: LakeStream) -> bool:
        rested.append(really_asked(stream))
        return rested[-1]

    monkeypatch.setattr(LakeStream, "_may_rest", ask)
    beat = heartbeat_query(source, opened.name, slot=slot_lsn(source.slot))
    with following(pipeline, spark):
        for number in (1, 2, 3):
            before = cuts.last()
            # the first one behind a start gets a cut
            while sum(rested) < number:
                asked = len(rested)
                pipeline.connection.execute(beat)
                until(partial(has_grown, rested, asked), "the stream has a heartbeat")
        assert cuts.last() == before
        token = programs.token(pipeline.connection)
        programs.wait(token, "lake", seconds=30, config=pipeline.config)
        after = cuts.last()
    assert after is not None
    assert before is not None
    assert after.is_next_to(before)
    assert after.position.lsn >= parse_lsn(token)


def join(pipeline: Pipeline) -> None:
    """What is new joins on the cluster, whose workers then compare a table that was there before."""
    ended = cdc_in_turn(pipeline, ["bootstrap"], ["verify", "--json", "--table", ITEMS])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    compared = json.loads(ended.stdout.splitlines()[-1])
    assert compared["equal"], compared


def submit(pipeline: Pipeline) -> None:
    """All of it catches up on the cluster."""
    with started(pipeline, "submit", "--until-caught-up") as running:
        running.wait_for("lake: ")
        check_commands(commands())
        running.wait_until(lambda: running.ended is not None, "it has caught up")
        assert running.ended == 0, running.said
        # of log4j, say, of a path that is no pattern
        assert "ERROR" not in running.said


def wait_everywhere(pipeline: Pipeline, token: str) -> None:
    """The readers of every follower, which has caught up, see what was written before the token."""
    for follower in select_followers(pipeline.settings, ()):
        programs.wait(token, follower, seconds=1, config=pipeline.config)


def check_readers(pipeline: Pipeline, server: S3Server) -> None:
    """Others read of the newest cut what Postgres has."""
    own, options = pipeline.opened().lake, delta_rs_options(server.access)
    cut = Cuts(own).last()
    assert cut is not None
    for name in pipeline.settings.selection.names:
        where, version = own.folder(name), cut.versions[str(name)]
        key = "order_id" if str(name) == ITEMS else "id"
        source = pipeline.connection.execute(f"SELECT count(*), sum({key}) FROM {name}".encode()).fetchone()
        found = polars.scan_delta(where, version=version, storage_options=options).select(polars.len(), polars.sum(key))
        assert found.collect().row(0) == source
        query = QueryBuilder().register("t", DeltaTable(where, version, options))
        [row] = pa.table(query.execute(f"SELECT count(*) AS n, sum({key}) AS s FROM t").read_all()).to_pylist()
        assert (row["n"], row["s"]) == source


def check_secrets(pipeline: Pipeline, lake: Path) -> None:
    """The key is in no file that anybody writes, but for the object store's own."""
    files = [path for folder in (pipeline.config.parent, lake) for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
