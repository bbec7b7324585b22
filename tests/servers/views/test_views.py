"""Views on real servers: kept up, fed to the index and the latest log as documents, and proved."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import IncompleteError
from cdc.core.table import TableName
from cdc.run.trace.trace import trace_row
from cdc.run.views.kept_views import describe_views, explain_view, find_view
from tests.support.cdc_inprocess import bootstrap, catch_up, following, problems, verify
from tests.support.pages import read_example
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.views.gates import Gates
from tests.support.waiting import until

SCHEMA = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text, data jsonb)",
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int, total numeric(10, 2), placed_at timestamptz)",
    "INSERT INTO customers SELECT n, 'customer ' || n, '{\"a\": 1}' FROM generate_series(1, 50) AS n",
    "INSERT INTO orders SELECT n, n % 60, n / 7.0, '2026-01-01' FROM generate_series(1, 300) AS n",
)
VIEWS = f"""{read_example("cdc/views/README.md", until="followers:")}  shop.details:
    key: [id]
    sql: SELECT id, data FROM customers
  shop.big:
    key: [id]
    sql: SELECT id, spent FROM shop.card WHERE spent > 100
  shop.ranking:
    key: [rank]
    whole_seconds: 1
    sql: |
      SELECT rank, id FROM (SELECT id, row_number() OVER (ORDER BY total DESC, id) AS rank FROM orders)
      WHERE rank <= 10

"""
CARD, CUSTOMERS = TableName("shop", "card"), TableName("public", "customers")


def make_shop(make_pipeline: MakePipeline) -> Pipeline:
    pipeline = make_pipeline(*SCHEMA, tables=("public.customers", "public.orders"))
    pipeline.configure("followers:\n", VIEWS + "followers:\n")
    pipeline.configure("    kind: search\n", "    kind: search\n    tables: [public.customers, shop.card]\n")
    pipeline.configure("    kind: latest\n", "    kind: latest\n    tables: [shop.card, shop.details, shop.big]\n")
    return pipeline


def test_views_are_kept_up_in_every_follower(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_shop(make_pipeline)
    bootstrap(pipeline, spark)
    assert not bootstrap(pipeline, spark).has_changed
    with following(pipeline, spark):
        write(pipeline, 1)
        pipeline.run(
            "TRUNCATE orders", "INSERT INTO orders SELECT n, n % 60, n, now() FROM generate_series(1, 200) AS n"
        )
        write(pipeline, 2)
        pipeline.run("ALTER TABLE customers ADD COLUMN since date", "UPDATE customers SET since = '2026-01-01'")
        write(pipeline, 3)
    catch_up(pipeline, spark)
    report = verify(pipeline, spark)
    assert report.is_equal, [(f, str(t), v) for f, vs in report.followers.items() for t, v in vs.items()]
    assert {str(name) for name in report.followers["search"]} == {"public.customers", "shop.card"}
    assert {str(name) for name in report.followers["latest"]} == {"shop.card", "shop.details", "shop.big"}
    assert {str(name) for name in report.followers["views"]} == {
        "shop.card",
        "shop.details",
        "shop.big",
        "shop.ranking",
    }
    assert not problems(pipeline)
    assert {view.state for view in describe_views(pipeline.opened())} == {"kept up"}
    assert all(not use.way.startswith("computes") for use in explain_view(pipeline.opened(), "shop.card").uses)
    check_traced(pipeline)


def check_traced(pipeline: Pipeline) -> None:
    """A row is found in the views by its own columns; what is found by way of other tables nobody knows."""
    found = {each.place: each for each in trace_row(pipeline.opened(), CUSTOMERS, ["5"], 1000).sightings}
    source = found["source"]
    for view in ("shop.card", "shop.details"):
        sighting = found[f"views {view}"]
        assert (sighting.describe(source), sighting.lsn, sighting.at is None) == (
            "as in the source",
            found["lake"].lsn,
            False,
        )
    assert found["views shop.big"].has_row is None
    assert "found by other tables" in found["views shop.big"].note


def test_a_view_that_goes_on_is_filled_anew_everywhere_beside_the_others(
    make_pipeline: MakePipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once damaged rows are in it, which only `cdc verify` finds."""
    pipeline = make_shop(make_pipeline)
    bootstrap(pipeline, spark)
    spark.sql(f"UPDATE delta.`{pipeline.opened().views.lake.folder(CARD)}` SET spent = -1 WHERE id = 7")
    opened = pipeline.opened()
    position = opened.views.position()
    assert position
    opened.views.stop(find_view(opened, str(CARD)), position.lsn, "it is to be filled anew")
    gates = Gates.put_before(monkeypatch)
    gates.close(CARD)
    with following(pipeline, spark) as running:
        until(lambda: bool(gates.begun[CARD]), "it is computed")
        for number in range(3):
            check_others_go_on(pipeline, number)
        gates.open(CARD)
        running.wait_for("view shop.card: 5")
    catch_up(pipeline, spark)
    assert gates.begun[CARD] == 1
    report = verify(pipeline, spark)
    assert report.is_equal, report.as_json()


def check_others_go_on(pipeline: Pipeline, number: int) -> None:
    """What is written now is in the other views, while one is computed."""
    cuts = pipeline.opened().views.cuts
    before = cuts.last()
    assert before
    write(pipeline, number)
    pipeline.run(f"UPDATE customers SET data = '{{\"a\": {number + 2}}}'")

    def details_are_newer() -> bool:
        cuts.invalidate()
        cut = cuts.last()
        return cut is not None and cut.versions["shop.details"] > before.versions["shop.details"]

    until(details_are_newer, "the others go on")
    last = cuts.last()
    assert last
    assert {name for name in last.versions if name.startswith("shop.")} == {"shop.details", "shop.ranking"}


def write(pipeline: Pipeline, number: int) -> None:
    """Both sides in one transaction, moved keys, deletes."""
    pipeline.run(
        "BEGIN; UPDATE customers SET name = name || '!' WHERE id % 7 = 1;"
        f" UPDATE orders SET customer_id = customer_id + 1, total = total + {number} WHERE id % 11 = 3; COMMIT",
        f"UPDATE customers SET id = id + 1000 WHERE id = {number + 10}",
        f"DELETE FROM orders WHERE id % 13 = {number}",
        f"INSERT INTO customers VALUES ({2000 + number}, 'new', NULL)",
        f"INSERT INTO orders VALUES ({5000 + number}, {2000 + number}, 12.5, now())",
        f"DELETE FROM customers WHERE id = {number + 20}",
    )


def test_a_view_with_a_wrong_key_stops_alone(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_shop(make_pipeline)
    pipeline.configure("followers:\n", "followers:\n")
    pipeline.configure(
        "  shop.big:\n",
        "  shop.totals:\n    key: [total]\n    sql: SELECT id, total FROM orders WHERE id > 299\n"
        "  shop.failing:\n    key: [id]\n    sql: SELECT id, CAST(name AS INT) AS n FROM customers\n  shop.big:\n",
    )
    with pytest.raises(IncompleteError, match=r"view shop\.failing is kept up no further: .*CAST_INVALID_INPUT"):
        bootstrap(pipeline, spark)
    filled = {str(view.name) for view in describe_views(pipeline.opened()) if view.state == "kept up"}
    assert filled == {"shop.card", "shop.details", "shop.totals", "shop.big", "shop.ranking"}
    assert "Traceback" in (Path(pipeline.settings.pipeline.state) / "logs" / "trouble.log").read_text()
    with following(pipeline, spark) as running:
        pipeline.run("INSERT INTO orders SELECT 301, 1, total, now() FROM orders WHERE id = 300")
        running.wait_for("view shop.totals is kept up no further: its key is not unique")
        pipeline.run("UPDATE customers SET name = 'on'")
        store = pipeline.opened().views
        before = store.position()
        until(lambda: store.position() != before, "the others go on")
        for name in ("totals", "failing"):
            assert any(f"view shop.{name} is kept up no further" in each for each in problems(pipeline))
