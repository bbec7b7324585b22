"""Tables and views in a Hive metastore: read by name in a Spark of one's own, and nothing of the lake waits for it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.core.errors import PreconditionError
from cdc.local.fetch.jars import spark_jars
from cdc.run.catalog.hive import open_hive
from cdc.run.catalog.keeper import CatalogKeeper, choose_prefix, open_catalog
from cdc.run.status.stream_report import open_reports
from tests.support.cdc_inprocess import bootstrap, catch_up, lend_session, status_of
from tests.support.parts.metastore_fixture import Metastore, make_metastore
from tests.support.parts.pipelines import MakePipeline, Pipeline

pytestmark = pytest.mark.timeout(900)
ORDERS = "public.orders"
SCHEMA = (
    "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(10, 2))",
    "INSERT INTO orders SELECT g, 'c' || g % 3, g FROM generate_series(1, 10) g",
    "COMMENT ON TABLE orders IS 'what was ordered'",
    "COMMENT ON COLUMN orders.customer IS 'who it is for: it''s \"theirs\"'",
)
BLOCKS = """catalog:
  kind: hive
  url: {url}
views:
  public.totals:
    key: [customer]
    sql: SELECT customer, count(*) AS n FROM public.orders GROUP BY customer
"""
FRESH = """
import json, sys
from pyspark.sql import SparkSession
url, jars, *statements = sys.argv[1:]
settings = {
    "spark.jars": jars,
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.hadoop.hive.metastore.uris": url,
}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.enableHiveSupport().getOrCreate()
print(json.dumps([[[*map(str, row)] for row in spark.sql(statement).collect()] for statement in statements]))
"""


@pytest.fixture
def metastore(make_pipeline: MakePipeline, tmp_path: Path) -> Iterator[tuple[Pipeline, Metastore]]:
    """A pipeline, and its metastore, which does not run yet."""
    pipeline = make_pipeline(*SCHEMA, tables=(ORDERS,), lake_only=True)
    name = f"{pipeline.settings.pipeline.name}_metastore"
    yield pipeline, make_metastore(tmp_path / "metastore", pipeline.connection, pipeline.servers.password, name)
    pipeline.connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def ask_fresh(url: str, folder: Path, *statements: str) -> list[list[list[str]]]:
    """What a new Spark that knows nothing but the metastore answers."""
    command = [sys.executable, "-c", FRESH, url, ",".join(map(str, spark_jars())), *statements]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: list[list[list[str]]] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_tables_are_found_by_name_and_the_lake_waits_for_no_catalog(
    metastore: tuple[Pipeline, Metastore], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, store = metastore
    pipeline.config.write_text(pipeline.config.read_text() + BLOCKS.format(url=store.url))
    bootstrap(pipeline, spark)
    catch_up(pipeline, spark)
    check_trouble(pipeline)
    name, opened = pipeline.settings.pipeline.name, pipeline.opened(spark)
    keeper = CatalogKeeper(opened)
    with store.running():
        assert keeper.look() == {}
        orders, columns, totals, detail = ask_fresh(
            store.url,
            tmp_path,
            f"SELECT count(*), sum(amount) FROM {name}_public.orders",
            f"DESCRIBE {name}_public.orders",
            f"SELECT customer, n FROM {name}_public.totals ORDER BY 1",
            f"DESCRIBE DETAIL {name}_public.orders",
        )
        assert orders == [["10", "55.00"]]
        assert ["customer", "string", 'who it is for: it\'s "theirs"'] in columns
        assert totals == [["c0", "3"], ["c1", "4"], ["c2", "3"]]
        assert "what was ordered" in detail[0]
        check_shape_change(pipeline, spark, keeper)
        check_places(pipeline, spark, store)
        pipeline.set_environ(monkeypatch)
        lend_session(spark, monkeypatch)
        assert main(["--config", str(pipeline.config), "teardown", "--yes"]) == 0
        with open_catalog(opened) as catalog:
            assert catalog.list_own() == {}


def check_trouble(pipeline: Pipeline) -> None:
    """A metastore that does not run is told, and has stopped nothing."""
    report = open_reports(pipeline.opened()).read_catalog()
    assert report is not None
    assert "the Hive metastore at thrift://127.0.0.1:" in report.error
    assert "does not answer" in report.error
    document = status_of(pipeline)
    assert document.problems["catalog.behind"].why == report.error
    assert document.tables[ORDERS].state == "followed"


def check_shape_change(pipeline: Pipeline, spark: SparkSession, keeper: CatalogKeeper) -> None:
    """A new column is registered with its comment, and the others keep theirs."""
    pipeline.run(
        "ALTER TABLE orders ADD COLUMN note text",
        "COMMENT ON COLUMN orders.note IS 'a note'",
        "INSERT INTO orders VALUES (11, 'c0', 1, 'new')",
    )
    catch_up(pipeline, spark)
    assert keeper.look() == {}
    folder = pipeline.opened().lake.folder(pipeline.settings.selection.names[0])
    described = {row["col_name"]: row["comment"] for row in spark.sql(f"DESCRIBE delta.`{folder}`").collect()}
    assert (described["note"], described["customer"]) == ("a note", 'who it is for: it\'s "theirs"')
    assert described["id"] is None
    # the lake's stream goes on behind the commit of the comments
    pipeline.run("UPDATE orders SET note = 'older' WHERE id < 3")
    catch_up(pipeline, spark)
    assert spark.read.format("delta").load(folder).where("note = 'older'").count() == 2


def check_places(pipeline: Pipeline, spark: SparkSession, store: Metastore) -> None:
    """The metastore's own database shows the same; nobody takes the place of another's table."""
    opened = pipeline.opened(spark)
    settings, name = opened.settings.catalog, opened.name
    assert settings is not None
    settings = settings.model_copy(update={"prefix": choose_prefix(opened)})
    with open_catalog(opened) as catalog:
        own = catalog.list_own()
    assert set(own) == {(f"{name}_public", "orders"), (f"{name}_public", "totals")}
    login = {"username": store.username, "password": opened.settings.source.password}
    direct = settings.model_copy(update={"url": store.database, **login})
    with open_hive(direct, name, spark, opened.state / "catalog") as catalog:
        assert catalog.list_own() == own
    entries, _ = CatalogKeeper(opened).list_entries()
    with (
        open_hive(settings, "another", spark, opened.state / "catalog") as catalog,
        pytest.raises(PreconditionError, match=rf"has another table at {name}_public\.orders → set catalog\.prefix"),
    ):
        catalog.put(entries[f"{name}_public", "orders"])
