"""A Kafka Connect with Debezium alone, without our jar: plain tables are followed, the rest is refused or reported."""

import pytest
from pyspark.sql import SparkSession

from cdc.columns.netting.ends import Ends
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.source.catalog import TablesRefusedError
from cdc.core.position import Offsets, Position
from cdc.run.health.heartbeat_chain import CheckedBeats, HeartbeatChain
from tests.support.cdc_inprocess import bootstrap, catch_up, verify
from tests.support.parts.pipelines import MakePipeline


@pytest.fixture(autouse=True)
def bare_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect as `cdc` sees it without the jar: the connector then has only classes of Debezium."""
    describe = ConnectClient.describe_plugins
    monkeypatch.setattr(
        ConnectClient,
        "describe_plugins",
        lambda client, *path: [each for each in describe(client, *path) if not each.class_.startswith("cdc.connect.")],
    )


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commits the chain of heartbeats remembers after each run, once a heartbeat came."""
    counts, check = list[int](), HeartbeatChain.check

    def look(chain: HeartbeatChain, run: Ends, before: Position, start: Offsets) -> CheckedBeats:
        checked = check(chain, run, before, start)
        if checked.digest is not None:
            counts.append(len(checked.state.commits))
        return checked

    monkeypatch.setattr(HeartbeatChain, "check", look)
    return counts


def test_plain_tables_are_followed(
    make_pipeline: MakePipeline,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    remembered: list[int],
) -> None:
    pipeline = make_pipeline(
        "CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(9,2), at timestamptz)",
        "INSERT INTO items VALUES (1, 'one', 1.50, now()), (2, 'two', NULL, NULL)",
        tables=("public.items",),
    )
    bootstrap(pipeline, spark)
    assert "a slot that somebody moves is not noticed → `cdc plugin FOLDER`" in capsys.readouterr().err
    pipeline.run(
        "UPDATE items SET name = repeat('x', 10000) WHERE id = 1",
        "UPDATE items SET price = price + 1",
        "DELETE FROM items WHERE id = 2",
        "INSERT INTO items VALUES (3, 'three', 0, '2026-01-01 00:00:00+00')",
    )
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert remembered
    assert not any(remembered)


def test_columns_that_debezium_does_not_send_whole_are_refused(
    make_pipeline: MakePipeline, spark: SparkSession
) -> None:
    pipeline = make_pipeline("CREATE TABLE waits (id int PRIMARY KEY, d interval)", tables=("public.waits",))
    with pytest.raises(TablesRefusedError, match=r"public\.waits: Kafka Connect lacks .* column d whole"):
        bootstrap(pipeline, spark)
