"""Rows as wide and as long as rows get: all followers hold them, or the capture names the row."""

import pytest
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import failure
from cdc.core.errors import PreconditionError
from tests.support.cdc_inprocess import bootstrap, catch_up, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

MOST_COLUMNS = 1_600
"""Of a table of Postgres (manual, appendix K, "PostgreSQL Limits")."""
LONG_BYTES = 20_000_000
"""More than librdkafka buffers where nobody says how much."""


MIDDLING_BYTES = 2_000_000
"""More than a broker takes where nobody says how much."""


def long(length: int = LONG_BYTES) -> str:
    """Random text: nothing on the way makes it small."""
    return f"(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, {length // 32}))"


def test_rows_of_20_mb_and_of_1600_columns(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    columns = ", ".join(f"c{number} int DEFAULT {number}" for number in range(1, MOST_COLUMNS))
    pipeline = make_pipeline(
        f"CREATE TABLE wide (id int PRIMARY KEY, {columns})",
        "CREATE TABLE long (id int PRIMARY KEY, n int, body text, raw bytea)",
        f"INSERT INTO long VALUES (1, 1, {long()}, NULL)",
        "INSERT INTO wide (id) VALUES (1), (2)",
        tables=("public.wide", "public.long"),
    )
    bootstrap(pipeline, spark)
    middling = long(MIDDLING_BYTES)
    pipeline.run(
        f"INSERT INTO long VALUES (2, 1, {long()}, NULL), (3, 1, '', decode({middling}, 'hex'))",
        f"INSERT INTO long VALUES (4, 1, {middling}, NULL)",
        # of two versions in one run, the first with the text, the second without it
        "UPDATE long SET n = 2 WHERE id IN (1, 2)",
        f"UPDATE long SET body = {middling} WHERE id = 4",
        "INSERT INTO wide (id) VALUES (3)",
        f"UPDATE wide SET c{MOST_COLUMNS - 1} = NULL WHERE id = 1",
        "DELETE FROM wide WHERE id = 2",
    )
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def test_row_above_the_size_limit_is_named(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline("CREATE TABLE long (id int PRIMARY KEY, body text)", tables=("public.long",))
    pipeline.configure("\nlog:\n", "\nlog:\n  max_row_bytes: 100_000\n")
    bootstrap(pipeline, spark)
    pipeline.run(f"INSERT INTO long VALUES (1, 'a'), (42, {long(128_000)}), (3, 'c')")
    connector = pipeline.settings.connect.connector
    with ConnectClient(pipeline.settings.connect.url) as client:
        until(lambda: failure(client, connector) is not None, "the capture fails")
    told = r'a change of public\.long with the key \{"id":42\} takes 128,\d{3} bytes, and log.max_row_bytes is 100,000'
    with pytest.raises(PreconditionError, match=told):
        catch_up(pipeline, spark)
    assert any("log.max_row_bytes" in problem for problem in problems(pipeline))
    raise_limit(pipeline)
    bootstrap(pipeline, spark)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


def raise_limit(pipeline: Pipeline) -> None:
    pipeline.configure("max_row_bytes: 100_000", "max_row_bytes: 200_000")
