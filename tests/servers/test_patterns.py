"""Tables selected by patterns: new ones join by themselves, with real servers."""

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from cdc.connect.source.catalog import TablesRefusedError
from cdc.core.errors import IncompleteError
from tests.support.cdc_inprocess import (
    bootstrap,
    catch_up,
    catch_up_but_for,
    following,
    lend_bootstrapped,
    problems,
    status_of,
    verify,
)
from tests.support.parts.pipelines import MakePipeline, Pipeline

MADE = (
    "CREATE SCHEMA sales",
    "CREATE TABLE sales.orders (id int PRIMARY KEY, n int)",
    "CREATE TABLE sales.old_orders (id int PRIMARY KEY)",
    "CREATE TABLE sales.log (line text)",
    "CREATE TABLE elsewhere (id int PRIMARY KEY)",
    "INSERT INTO sales.orders VALUES (1, 1)",
    "INSERT INTO sales.old_orders VALUES (1)",
)


def names(pipeline: Pipeline) -> list[str]:
    return [str(name) for name in pipeline.opened().lake_follower.bookmarks()]


def test_unsupported_tables_of_a_pattern_are_skipped(
    left: list[Pipeline],
    make_shared_pipeline: MakePipeline,
    quicker: None,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only patterns name these tables: one is not followed at all, two in the lake and where they fit."""
    pipeline = make_shared_pipeline(
        *MADE,
        "CREATE UNLOGGED TABLE sales.baskets (id int PRIMARY KEY)",
        "CREATE TABLE sales.events (place text, n int)",
        "ALTER TABLE sales.events REPLICA IDENTITY FULL",
        "INSERT INTO sales.events VALUES ('a', 1), ('a', 1)",
        "CREATE TABLE sales.documents (id int PRIMARY KEY, _source text)",
        "INSERT INTO sales.documents VALUES (1, 'x')",
        tables=("sales.*", "!sales.old_*"),
    )
    bootstrap(pipeline, spark)
    said = capsys.readouterr().err
    for line in (
        "not followed: sales.baskets is not logged, so no change of it can be captured → ALTER TABLE … SET LOGGED",
        "not followed: sales.log has no primary key, and no other replica identity → add a primary key, or ALTER TABLE"
        " … REPLICA IDENTITY FULL",
        "not in search: sales.events has no primary key, and a search index needs one → give it one, name one under"
        " source.keys, or the table under leave_out of this follower",
        "not in latest: sales.events has no primary key, and a compacted topic needs one → give it one, name one under"
        " source.keys, or the table under leave_out of this follower",
        "not in search: sales.documents: OpenSearch keeps the name _source for itself → rename the column, or name the"
        " table under leave_out of this follower",
    ):
        assert line in said.splitlines()
    assert names(pipeline) == ["sales.documents", "sales.events", "sales.orders"]
    assert followed_tables(pipeline) == {
        "lake": {"sales.documents", "sales.events", "sales.orders"},
        "search": {"sales.orders"},
        "latest": {"sales.documents", "sales.orders"},
    }
    with following(pipeline, spark) as running:
        pipeline.run("INSERT INTO sales.events VALUES ('a', 1)", "UPDATE sales.documents SET _source = 'y'")
        # at once: the copy has the row
        with pipeline.connection.transaction():
            pipeline.run(
                "CREATE TABLE sales.clicks (n int)",
                "ALTER TABLE sales.clicks REPLICA IDENTITY FULL",
                "INSERT INTO sales.clicks VALUES (1)",
            )
        running.wait_for_each("sales.clicks joins: 1 row copied", "not in latest: sales.clicks has no primary key")
        # from now on it fits
        pipeline.run("ALTER TABLE sales.documents RENAME _source TO source")
        running.wait_for("sales.documents is copied again")
        assert verify(pipeline, spark).is_equal
    assert followed_tables(pipeline)["search"] == {"sales.documents", "sales.orders"}
    assert not bootstrap(pipeline, spark).has_changed
    catch_up(pipeline, spark)
    report = verify(pipeline, spark)
    assert report.is_equal
    assert {follower: set(map(str, found)) for follower, found in report.followers.items()} == {
        "lake": {"sales.clicks", "sales.documents", "sales.events", "sales.orders"},
        "search": {"sales.documents", "sales.orders"},
        "latest": {"sales.documents", "sales.orders"},
    }
    left.append(pipeline)


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """One whose tables fit into all followers, or that of the test before."""
    tables = ("sales.*", "!sales.old_*", "!sales.log")
    yield from lend_bootstrapped(left, spark, lambda: make_shared_pipeline(*MADE, tables=tables))


def test_stopped_table_of_an_index_is_reported(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.run("ALTER TABLE sales.orders ADD _source text")
    with pytest.raises(IncompleteError, match=r"sales\.orders: OpenSearch keeps the name _source"):
        catch_up(pipeline, spark)
    pipeline.run("ALTER TABLE sales.orders DROP _source")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def followed_tables(pipeline: Pipeline) -> dict[str, set[str]]:
    """The tables of which `status` counts rows, by follower."""
    tables = status_of(pipeline).tables.items()
    return {name: {table for table, found in tables if name in found.rows_in} for name in pipeline.settings.followers}


def test_new_tables_of_a_pattern_join(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*MADE, tables=("sales.*", "!sales.old_*", "!sales.log"), lake_only=True)
    bootstrap(pipeline, spark)
    assert names(pipeline) == ["sales.orders"]
    pipeline.run("CREATE TABLE sales.items (id int PRIMARY KEY, n int)", "INSERT INTO sales.items VALUES (1, 1)")
    # with no row yet, and one that is gone before anybody has copied it
    pipeline.run("CREATE TABLE sales.empty (id int PRIMARY KEY)", "CREATE TABLE sales.gone (id int PRIMARY KEY)")
    pipeline.run("DROP TABLE sales.gone", "CREATE TABLE sales.old_items (id int PRIMARY KEY)")
    catch_up(pipeline, spark)
    assert names(pipeline) == ["sales.empty", "sales.items", "sales.orders"]
    assert verify(pipeline, spark).is_equal
    with following(pipeline, spark) as running:
        with pipeline.connection.transaction():
            pipeline.run(
                "CREATE TABLE sales.parts (id int, n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n)",
                "CREATE TABLE sales.part_1 PARTITION OF sales.parts FOR VALUES IN (1)",
                "INSERT INTO sales.parts VALUES (1, 1)",
                "CREATE TABLE sales.unfit (id int)",
            )
        running.wait_for_each("sales.parts joins: 1 row copied", "not copied again yet: sales.unfit has no primary key")
        with pipeline.connection.transaction():
            pipeline.run("ALTER TABLE sales.unfit ADD PRIMARY KEY (id)", "INSERT INTO sales.unfit VALUES (1)")
        running.wait_for("sales.unfit joins: 1 row copied")
        pipeline.run("UPDATE sales.orders SET n = 2", "INSERT INTO sales.empty VALUES (7)", "DELETE FROM sales.unfit")
        assert verify(pipeline, spark).is_equal
    assert not bootstrap(pipeline, spark).has_changed
    assert "sales.part_1" not in names(pipeline)


def test_table_that_cannot_join_is_reported_and_stops_no_other(
    make_pipeline: MakePipeline, spark: SparkSession
) -> None:
    pipeline = make_pipeline(*MADE, "DROP TABLE sales.log", tables=("sales.*",), lake_only=True)
    bootstrap(pipeline, spark)
    pipeline.run("CREATE TABLE sales.keyless (id int)", "CREATE TABLE sales.next (id int PRIMARY KEY)")
    pipeline.run("DROP TABLE sales.old_orders")
    # before the others in the order of names
    pipeline.run("CREATE TABLE sales.endless (id int PRIMARY KEY, v date)")
    pipeline.run("INSERT INTO sales.endless VALUES (1, 'infinity')")
    gone = r"no table sales\.old_orders in the source → stop `cdc follow`; `cdc bootstrap` leaves it out"
    catch_up_but_for(pipeline, spark, rf"followed no further than .* it cannot be copied: {gone}")
    assert names(pipeline) == ["sales.next", "sales.old_orders", "sales.orders"]
    told = problems(pipeline)
    assert [line.partition(" ")[0] for line in told] == ["sales.old_orders", "sales.keyless", "sales.endless"]
    assert re.search(gone, told[0])
    assert "sales.keyless has no primary key" in told[1]
    pipeline.run("CREATE TABLE sales.last (id int PRIMARY KEY)")
    assert "sales.last is not copied yet → run `cdc follow`" in problems(pipeline)
    bootstrap(pipeline, spark)
    assert names(pipeline) == ["sales.last", "sales.next", "sales.orders"]
    with pytest.raises(TablesRefusedError, match=r"sales\.keyless has no primary key"):
        bootstrap(pipeline, spark, "sales.keyless")
    with pytest.raises(TablesRefusedError, match=r"sales\.endless: column v holds infinity.*, where id = 1 →"):
        bootstrap(pipeline, spark, "sales.endless")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
