"""Histories on real servers: every committed version, as of any moment, also for a view of what was true then."""

import json
import shutil
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import cdc
from cdc.__main__ import main
from cdc.connect.source.catalog import TablesRefusedError
from cdc.core.errors import DivergenceError, PreconditionError
from cdc.core.table import TableName
from cdc.run.verify.chains import check_chains
from tests.support.cdc_inprocess import (
    bootstrap,
    catch_up,
    catch_up_but_for,
    following,
    lend_bootstrapped,
    lend_session,
    problems,
    verify,
)
from tests.support.lake.read_rows import read_rows
from tests.support.parts.pipelines import MakePipeline, Pipeline

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


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """`prices` with a history, and a view that reads it."""

    def make() -> Pipeline:
        made = make_shared_pipeline(*PRICES, tables=("public.prices", "public.sales"), lake_only=True)
        made.configure("followers:\n", AS_IT_WAS + "followers:\n")
        return made

    yield from lend_bootstrapped(left, spark, make)


def test_every_version_can_be_read_again(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in pipeline.environ.items():
        monkeypatch.setenv(name, value)
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
    sold = read_rows(pipeline, "shop.sold")
    assert {row["id"]: int(row["price"]) for row in sold} == {n: n + 1 for n in range(1, 6)}
    versions = read_rows(pipeline, "public.prices_history")
    lived = [row["_change"] for row in versions if (row["id"], row["price"]) == (3, 0)]
    assert lived == ["update"], "a version that lived inside one transaction"


def test_a_changed_past_breaks_the_chain(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.set_environ(monkeypatch)
    lend_session(spark, monkeypatch)
    [before] = check_chains(pipeline.opened(spark))
    assert (str(before.history), before.is_whole) == ("public.prices_history", True)
    place = pipeline.opened().lake.folder(TableName("public", "prices_history"))
    spark.sql(f"UPDATE delta.`{place}` SET price = 0 WHERE _batch = {before.batches} AND id = 1")
    # what is added later does not hide it
    pipeline.run("UPDATE prices SET price = 5 WHERE id = 1")
    catch_up(pipeline, spark)
    capsys.readouterr()
    assert main(["--config", str(pipeline.config), "verify", "--chain", "--json"]) == DivergenceError.exit_code
    said = capsys.readouterr()
    assert f"public.prices_history: a row of batch {before.batches} was changed, taken away or added" in said.err
    [verdict] = json.loads(said.out)
    assert (verdict["batches"], verdict["broken"]) == (before.batches + 1, before.batches)


def test_a_wrong_history_goes_on_with_the_rows_of_its_table(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repair adds what makes it equal, and leaves what was wrong in the past."""
    pipeline.set_environ(monkeypatch)
    lend_session(spark, monkeypatch)
    # of its own: others of this pipeline may be gone
    pipeline.run("INSERT INTO prices (id, price) VALUES (1002, 1), (1003, 1)")
    catch_up(pipeline, spark)
    place = pipeline.opened().lake.folder(TableName("public", "prices_history"))
    spark.sql(f"UPDATE delta.`{place}` SET price = 770 WHERE id = 1002")
    spark.sql(f"DELETE FROM delta.`{place}` WHERE id = 1003")
    with pytest.raises(DivergenceError, match="`cdc repair` puts the keys above right"):
        verify(pipeline, spark).check_equal()
    capsys.readouterr()
    for repaired in (2, 0):
        assert main(["--config", str(pipeline.config), "repair", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["tables"]["public.prices_history"]["keys"] == repaired, found
    assert verify(pipeline, spark).is_equal
    versions = read_rows(pipeline, "public.prices_history")
    assert 770 in {row["price"] for row in versions}
    pipeline.run("UPDATE prices SET price = 6 WHERE id IN (1002, 1003)")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_a_table_without_a_key_has_no_history(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline("CREATE TABLE logs (line text)", tables=("public.logs",), lake_only=True)
    pipeline.run("ALTER TABLE logs REPLICA IDENTITY FULL")
    pipeline.configure("followers:\n", "history: [public.logs]\nfollowers:\n")
    with pytest.raises(TablesRefusedError, match=r"public\.logs: no history can be kept: it has no key"):
        bootstrap(pipeline, spark)


SHAPES = (
    "CREATE TABLE rates (id int PRIMARY KEY, amount int)",
    "CREATE TABLE labelled (id int PRIMARY KEY, label text, amount int)",
    "CREATE TABLE keyed (id int PRIMARY KEY, code text NOT NULL)",
    "CREATE TABLE plain (id int PRIMARY KEY, x int)",
    # the user's own, and there before the history of `labelled` is
    "CREATE TABLE labelled_history (id int PRIMARY KEY, note text)",
    "INSERT INTO rates VALUES (1, 10), (2, 20)",
    "INSERT INTO labelled VALUES (1, 'one', 10), (2, 'two', 20)",
    "INSERT INTO keyed VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO labelled_history VALUES (1, 'of the user')",
)
TRACKED = ("keyed", "labelled", "rates")
CHANGED = (
    "ALTER TABLE rates ALTER amount TYPE text USING 'EUR ' || amount",
    "ALTER TABLE labelled DROP COLUMN label",
    "ALTER TABLE keyed DROP CONSTRAINT keyed_pkey, ADD PRIMARY KEY (code)",
    "CREATE TABLE rates_history (id int PRIMARY KEY, note text)",
    "INSERT INTO rates_history VALUES (1, 'of the user')",
)
AFTER = (
    "UPDATE rates SET amount = 'EUR 11' WHERE id = 1",
    "UPDATE labelled SET amount = 11 WHERE id = 1",
    "UPDATE keyed SET id = 7 WHERE code = 'a'",
    "INSERT INTO plain VALUES (1, 1)",
)


def tables_now(pipeline: Pipeline) -> dict[str, tuple[list[str], list[tuple[object, ...]]]]:
    """Columns and rows of each tracked table."""
    found = {}
    for name in TRACKED:
        cursor = pipeline.connection.execute(f"SELECT * FROM {name}".encode())
        found[name] = ([column.name for column in cursor.description or ()], sorted(cursor.fetchall()))
    return found


def test_the_past_outlives_every_change_of_shape(
    make_pipeline: MakePipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(*SHAPES, tables=("public.*",), lake_only=True)
    pipeline.configure("followers:\n", f"history: [{', '.join(TRACKED)}]\nfollowers:\n")
    for name, value in pipeline.environ.items():
        monkeypatch.setenv(name, value)
    bootstrap(pipeline, spark)
    states = [(moment(pipeline), tables_now(pipeline))]
    with following(pipeline, spark) as running:
        running.wait_for("following")
        pipeline.run("UPDATE rates SET amount = 12 WHERE id = 2")
        states.append((moment(pipeline), tables_now(pipeline)))
        pipeline.run(*CHANGED)
        pipeline.run(*AFTER)
        # one batch or two, in either order
        running.wait_for_each(
            *(f"the history of public.{name} goes on in public.{name}_history_2" for name in ("rates", "keyed"))
        )
        pipeline.run("DELETE FROM rates WHERE id = 2", "INSERT INTO labelled VALUES (3, 30)")
        states.append((moment(pipeline), tables_now(pipeline)))
    told = problems(pipeline)
    for name in ("labelled", "rates"):
        assert any(f"public.{name}_history: in the lake this is the name of the history of" in each for each in told)
    # as the line says
    pipeline.configure("  tables:\n", '  tables:\n    - "!public.labelled_history"\n    - "!public.rates_history"\n')
    catch_up(pipeline, spark)
    assert not problems(pipeline)
    for token, expected in states:
        for name, (columns, rows) in expected.items():
            found = cdc.as_of(spark, f"public.{name}", token, config=pipeline.config)
            assert (found.columns, sorted(map(tuple, found.collect()))) == (columns, rows), (token, name)
    assert verify(pipeline, spark).is_equal
    chains = check_chains(pipeline.opened(spark))
    assert [str(each.history).removeprefix("public.") for each in chains if each.is_whole] == [
        *("keyed_history", "keyed_history_2", "labelled_history", "rates_history", "rates_history_2")
    ]
    lose_one_and_go_on(pipeline, spark)


def lose_one_and_go_on(pipeline: Pipeline, spark: SparkSession) -> None:
    """A history that is lost stops alone and is told; the remedy that is named works."""
    shutil.rmtree(pipeline.opened().lake.folder(TableName("public", "labelled_history")))
    pipeline.run("UPDATE labelled SET amount = 31 WHERE id = 3", "INSERT INTO plain VALUES (2, 2)")
    told = catch_up_but_for(pipeline, spark, r"public\.labelled_history is kept no further")
    assert problems(pipeline) == [told]
    assert "`cdc bootstrap --again public.labelled`" in told
    assert main(["--config", str(pipeline.config), "status"]) == PreconditionError.exit_code
    assert verify(pipeline, spark, TableName("public", "plain")).is_equal
    bootstrap(pipeline, spark, "public.labelled")
    catch_up(pipeline, spark)
    assert not problems(pipeline)
    assert verify(pipeline, spark).is_equal
    assert [each.is_whole for each in check_chains(pipeline.opened(spark))] == [
        True,
        True,
        False,
        True,
        True,
        True,
    ]
