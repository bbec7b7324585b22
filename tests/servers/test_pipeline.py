"""The whole path with real servers: Postgres, Debezium, Kafka, Spark, Delta, OpenSearch, and the latest log."""

import json
import os
import random
import re
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.cli.output import say
from cdc.columns.rows import digest as digests
from cdc.columns.rows.digest import Digest
from cdc.core.errors import ConfigurationError, PreconditionError, RefusedError
from cdc.core.table import TableName
from cdc.run.copy.fill import find_missing_tables
from cdc.run.follow.follow import follow
from cdc.run.status.things import State
from cdc.run.verify.verify import verify as run_verify
from cdc.sinks.lake.delta.other_writers import ENGINE
from cdc.sinks.search.settings import SearchSettings
from tests.support.cdc_inprocess import bootstrap, catch_up, following, lend, status_of, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until
from tests.support.workload import ITEMS, ORDERS, SCHEMA, Workload

MOST_OF_SELECT = 1024


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """Two tables that all follow; nobody follows at the end of a test."""

    def make() -> Pipeline:
        made = make_shared_pipeline(*SCHEMA, tables=(ORDERS, ITEMS))
        assert set(bootstrap(made, spark).copied.values()) == {2000, 1000}
        assert not bootstrap(made, spark).has_changed
        return made

    yield from lend(left, make)


@pytest.mark.parametrize("by_the_driver", [20_000, 0], ids=["by the driver", "by Spark jobs"])
def test_every_kind_of_change_reaches_every_follower(
    pipeline: Pipeline, spark: SparkSession, by_the_driver: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_the_driver:
        for bound in ("SMALL_BYTES", "SMALL_ROWS"):
            monkeypatch.setattr(digests, bound, -1)
    with configured(pipeline, "    path: lake\n", f"    path: lake\n    small_run_changes: {by_the_driver}\n"):
        # those that the test before has truncated
        pipeline.run(f"{SCHEMA[-1]} ON CONFLICT DO NOTHING")
        work = Workload(pipeline.connection, random.Random(7 + by_the_driver), fresh=1_000_000 + by_the_driver * 100)
        with following(pipeline, spark):
            work.write(300)
            pipeline.run("TRUNCATE items", "INSERT INTO items VALUES (1, 1, 'behind the truncate')")
            work.write(100)
        catch_up(pipeline, spark)
    # every value has one form, whichever way it came: nothing is left to be brought together
    with patch("cdc.run.verify.pinned_source.compare", side_effect=AssertionError("other digests")):
        report = verify(pipeline, spark)
    assert report.is_equal, report.as_json()


@contextmanager
def configured(pipeline: Pipeline, old: str, new: str) -> Iterator[None]:
    """The configuration file says something else meanwhile."""
    before = pipeline.config.read_text()
    pipeline.configure(old, new)
    yield
    pipeline.config.write_text(before)


@pytest.fixture
def many_files() -> Iterator[None]:
    """More files than `select` takes are open in this process, as where hundreds of tables are followed."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    with ExitStack() as held:
        while held.enter_context(open(os.devnull)).fileno() <= MOST_OF_SELECT:  # noqa: PTH123
            pass
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_tables_join_while_the_others_are_followed(
    make_pipeline: MakePipeline, spark: SparkSession, many_files: None
) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,))
    bootstrap(pipeline, spark)
    work = Workload(pipeline.connection, random.Random(8))
    with following(pipeline, spark):
        work.write(50)
        pipeline.configure("- public.orders", "- public.orders\n    - public.items")
        assert {str(table) for table in bootstrap(pipeline, spark).copied} == {ITEMS}
        # the follow that had begun with the other file takes it
        until(lambda: ITEMS in map(str, pipeline.opened().fed["search"].bookmarks()), "search has it")
        work.write(100)
    catch_up(pipeline, spark)
    report = verify(pipeline, spark)
    assert report.is_equal, report.as_json()


def test_verify_names_differing_keys(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    bootstrap(pipeline, spark)
    check_rows_decide_when_digests_differ(pipeline, spark)
    lake = pipeline.settings.delta[1].path
    spark.sql(f"UPDATE delta.`{lake}/public/orders` SET total = 0, note = 'forged' WHERE id = 7")
    spark.sql(f"DELETE FROM delta.`{lake}/public/orders` WHERE id = 8")
    sign_as_ours(Path(lake, "public/orders"), 1, 2)
    pipeline.run("UPDATE orders SET customer = 'x' WHERE id = 9")
    catch_up(pipeline, spark)
    found = run_verify(pipeline.opened(spark), ("lake",), patience=60, max_keys=10)
    verdict = found.followers["lake"][pipeline.settings.selection.names[0]].comparison
    assert verdict is not None
    assert (verdict.differing, verdict.missing, verdict.extra) == (1, 1, 0)
    assert {(key.key["id"], key.kind, key.columns) for key in verdict.keys} == {
        ("7", "differing", ("total", "note")),
        ("8", "missing", ()),
    }


def sign_as_ours(table: Path, *versions: int) -> None:
    """Have commits of another writer, who is told at once, pass for a fault of our own."""
    for version in versions:
        commit = table / "_delta_log" / f"{version:020}.json"
        signed = re.sub(r'"engineInfo":"[^"]*"', f'"engineInfo":"{ENGINE}"', commit.read_text())
        assert ENGINE in signed
        commit.write_text(signed)
        # Hadoop's checksum of what was there
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)


def check_rows_decide_when_digests_differ(pipeline: Pipeline, spark: SparkSession) -> None:
    with patch("cdc.run.verify.pinned_source.PinnedSource._compute_digest", return_value=Digest(1, 1)):
        found = run_verify(pipeline.opened(spark), ("lake",), patience=60, max_keys=10)
    verdict = found.followers["lake"][pipeline.settings.selection.names[0]].comparison
    assert verdict is not None
    assert (verdict.equal, verdict.source_rows, verdict.follower_rows) == (True, 2000, 2000)


class AllChecked(Exception):
    """All that is checked before rows are read has been."""


def test_verify_fails_at_once_when_nobody_follows(pipeline: Pipeline, spark: SparkSession) -> None:
    everybody, compares = tuple(pipeline.settings.followers), "cdc.run.verify.verify._compare_at_lsn"
    with patch(compares, side_effect=AllChecked):
        with pytest.raises(AllChecked):
            run_verify(pipeline.opened(), everybody, None, 10)
        pipeline.run("UPDATE orders SET customer = 'x' WHERE id IN (9, 10)")
        until(lambda: lags(pipeline) == {"lake": 2, "search": 2, "latest": 2}, "the log has both changes")
        behind = "follower lake is 2 changes behind, and no `cdc follow` runs on this machine"
        with pytest.raises(PreconditionError, match=behind):
            run_verify(pipeline.opened(), everybody, None, 10)
        with pipeline.opened().leases.hold("search"), pytest.raises(AllChecked):
            run_verify(pipeline.opened(), ("search",), None, 10)
        with pytest.raises(AllChecked):
            run_verify(pipeline.opened(), ("search",), 2.0, 10)
    # without Spark: the tables are small
    with pytest.raises(PreconditionError, match=r"follower search is at \S+ and has not reached \S+ in 2 s"):
        run_verify(pipeline.opened(), ("search",), 2.0, 10)


INDEX = """  search:
    indexes:
      public.orders:
        leave_out_columns: [b]
        names: {customer: who}
        mappings: {properties: {j: {type: object, dynamic: false}, day: {type: date, format: yyyy-MM-dd}}}
        settings: {number_of_shards: 3}
        routing: "{customer}"
        id: "{customer}:{id}"
"""


def test_an_index_takes_another_shape_and_its_documents_move(
    pipeline: Pipeline, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.set_environ(monkeypatch)
    with configured(pipeline, "  search:\n", INDEX.replace("customer: who", "nobody: who")):
        told = run_verb(pipeline, capsys, "config", "check", code=ConfigurationError.exit_code)
        assert "followers.search: public.orders: names names nobody, and it has no such column" in told
    with configured(pipeline, "  search:\n", INDEX):
        run_verb(pipeline, capsys, "config", "check")
        with pipeline.opened() as opened:
            assert find_missing_tables(opened.fed["search"], opened.open_feed("search")) == [TableName.parse(ORDERS)]
        work = Workload(pipeline.connection, random.Random(5), fresh=7_000_000)
        with following(pipeline, spark):
            work.write(100)
            # of some the id and the routing change, also together with the key
            pipeline.run("UPDATE orders SET customer = 'moved' || id % 3 WHERE id % 7 = 0")
            pipeline.run("UPDATE orders SET id = id + 5000000, customer = NULL WHERE id % 91 = 0")
            work.write(50)
        catch_up(pipeline, spark)
        with patch("cdc.run.verify.pinned_source.compare", side_effect=AssertionError("other digests")):
            assert verify(pipeline, spark).is_equal
        find_what_is_gone(pipeline, spark, capsys)


def find_what_is_gone(pipeline: Pipeline, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A row is found by its key wherever its document is; where it is not, verification names it."""
    [[key]] = pipeline.connection.execute("SELECT min(id) FROM orders WHERE customer LIKE 'moved%'").fetchall()
    told = json.loads(run_verb(pipeline, capsys, "trace", ORDERS, str(key), "--json"))
    assert {each["state"] for each in told["places"] if each["place"] == "search"} == {"as in the source"}
    search = pipeline.settings.followers["search"]
    assert isinstance(search, SearchSettings)
    with httpx.Client(base_url=f"{search.url}/{search.prefix}-public-orders") as client:
        found = client.post("/_delete_by_query?refresh=true", json={"query": {"term": {"id": key}}})
        assert found.raise_for_status().json()["deleted"] == 1
    differing = verify(pipeline, spark).followers["search"][TableName.parse(ORDERS)].comparison
    assert differing
    assert [(each.key, each.kind) for each in differing.keys] == [({"id": str(key)}, "missing")]


def run_verb(pipeline: Pipeline, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a verb prints."""
    capsys.readouterr()
    assert main(["--config", str(pipeline.config), *words]) == code
    found = capsys.readouterr()
    return found.err if code else found.out


def lags(pipeline: Pipeline) -> dict[str, int | None]:
    found = status_of(pipeline)
    assert {table.state for table in found.tables.values()} == {State.FOLLOWED}
    return {name: follower.changes_waiting for name, follower in found.followers.items()}


def test_a_second_follow_of_one_follower_is_refused(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    with pipeline.opened().leases.hold("lake"), pytest.raises(RefusedError, match="already being followed by process"):
        follow(pipeline.opened(spark), ("lake",), say, until_caught_up=False)
