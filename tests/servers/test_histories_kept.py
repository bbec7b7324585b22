"""Histories on real servers: every committed version, as of any moment, also for a view of what was true then."""

import json

import pytest
from pyspark.sql import SparkSession

import cdc
from cdc.connect.source.catalog import TablesRefusedError
from cdc.core.table import TableName
from cdc.run.pipeline import lake_of
from cdc.run.verify.chains import check_chains
from tests.support.cdc_inprocess import bootstrap, catch_up, following, verify
from tests.support.cdc_subprocess import cdc as run_cdc
from tests.support.pipelines import MakePipeline, Pipeline

PRICES = (
    "CREATE TABLE prices (id int PRIMARY KEY, price numeric(8, 2), note text)",
    "ALTER TABLE prices ALTER note SET STORAGE EXTERNAL",
    "CREATE TABLE sales (id int PRIMARY KEY, price_id int, at timestamptz)",
    "INSERT INTO prices SELECT n, n, repeat('x', 5000) FROM generate_series(1, 10) AS n",
)
AS_IT_WAS = """history: [public.prices]
views:
  shop.sold:
    key: [id]
    sql: |
      SELECT s.id, max_by(h.price, h._sequence) AS price
      FROM sales s LEFT JOIN prices_history h ON h.id = s.price_id AND h._committed_at <= s.at
      GROUP BY s.id

"""


SELL = "INSERT INTO sales SELECT n, n, now() FROM generate_series(1, 5) AS n"


def moment(pipeline: Pipeline) -> str:
    """Everything that is committed now, and nothing after it."""
    token = cdc.token(pipeline.connection)
    # commits behind it, so that no later change has this LSN
    pipeline.run("SELECT txid_current()")
    return token


def rows_now(pipeline: Pipeline) -> list[tuple[object, ...]]:
    return pipeline.connection.execute("SELECT * FROM prices ORDER BY id").fetchall()


def test_every_version_can_be_read_again(
    make_pipeline: MakePipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(*PRICES, tables=("public.prices", "public.sales"), lake_only=True)
    pipeline.configure("followers:\n", AS_IT_WAS + "followers:\n")
    for name, value in pipeline.environ.items():
        monkeypatch.setenv(name, value)
    bootstrap(pipeline, spark)
    states = [(moment(pipeline), rows_now(pipeline))]
    with following(pipeline, spark) as running:
        running.wait_for("following")
        for statements in (
            [
                "UPDATE prices SET price = price + 1",
                SELL,
            ],
            ["BEGIN; UPDATE prices SET price = 0 WHERE id = 3; DELETE FROM prices WHERE id = 3; COMMIT"],
            ["UPDATE prices SET id = id + 100 WHERE id = 4", "UPDATE prices SET note = 'short' WHERE id = 5"],
            ["ALTER TABLE prices ADD COLUMN kind text", "UPDATE prices SET kind = 'new' WHERE id = 6"],
            ["TRUNCATE prices", "INSERT INTO prices VALUES (1, 77, NULL)"],
        ):
            pipeline.run(*statements)
            states.append((moment(pipeline), rows_now(pipeline)))
    catch_up(pipeline, spark)
    for token, expected in states:
        found = cdc.as_of(spark, "public.prices", token, config=pipeline.config).orderBy("id").collect()
        width = len(expected[0])
        assert [tuple(row)[:width] for row in found] == expected, token
    report = verify(pipeline, spark)
    assert report.is_equal, report.as_json()
    assert TableName("public", "prices_history") in report.followers["lake"]
    # what a sale saw does not change with the price
    sold = spark.read.format("delta").load(lake_of(pipeline.settings).folder(TableName("shop", "sold")))
    assert {row["id"]: int(row["price"]) for row in sold.collect()} == {n: n + 1 for n in range(1, 6)}
    history = spark.read.format("delta").load(lake_of(pipeline.settings).folder(TableName("public", "prices_history")))
    lived = history.where("id = 3 AND price = 0").collect()
    assert [row["_change"] for row in lived] == ["update"], "a version that lived inside one transaction"


def test_a_changed_past_breaks_the_chain(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*PRICES, tables=("public.prices",), lake_only=True)
    pipeline.configure("followers:\n", "history: [public.prices]\nfollowers:\n")
    bootstrap(pipeline, spark)
    for condition in ("id < 4", "id = 7"):
        pipeline.run(f"UPDATE prices SET price = price + 1 WHERE {condition}")
        catch_up(pipeline, spark)
    [verdict] = check_chains(pipeline.settings, spark)
    assert (str(verdict.history), verdict.batches, verdict.broken) == ("public.prices_history", 3, None)
    place = lake_of(pipeline.settings).folder(TableName("public", "prices_history"))
    spark.sql(f"UPDATE delta.`{place}` SET price = 0 WHERE _batch = 2 AND id = 3")
    [verdict] = check_chains(pipeline.settings, spark)
    assert verdict.broken == 2
    # what is added later does not hide it
    pipeline.run("UPDATE prices SET price = 5 WHERE id = 1")
    catch_up(pipeline, spark)
    broken = run_cdc(pipeline, "verify", "--chain", "--json")
    assert broken.returncode == 5
    assert "public.prices_history: a row of batch 2 was changed, taken away or added" in broken.stderr
    assert json.loads(broken.stdout)[0]["broken"] == 2


def test_a_table_without_a_key_has_no_history(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline("CREATE TABLE logs (line text)", tables=("public.logs",), lake_only=True)
    pipeline.run("ALTER TABLE logs REPLICA IDENTITY FULL")
    pipeline.configure("followers:\n", "history: [public.logs]\nfollowers:\n")
    with pytest.raises(TablesRefusedError, match=r"public\.logs: no history can be kept: it has no key"):
        bootstrap(pipeline, spark)
