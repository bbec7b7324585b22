"""Tables whose rows are told apart by other than a primary key, on the real parts."""

import pytest
from pyspark.sql import SparkSession

from cdc.run.verify import Report
from tests.pipelines import MakePipeline, Pipeline
from tests.verbs import booted, caught_up, verified

pytestmark = pytest.mark.timeout(900)

KEYLESS = (
    "CREATE TABLE logs (at timestamptz, level text, message text, tags text[], ratio double precision)",
    "ALTER TABLE logs REPLICA IDENTITY FULL",
    "INSERT INTO logs VALUES (now(), 'info', 'copied', '{a,b}', 0.5), (NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO logs SELECT '2020-01-01', 'info', 'the same', NULL, 'NaN' FROM generate_series(1, 5)",
)
CHANGES = (
    "INSERT INTO logs SELECT '2020-01-01', 'info', 'the same', NULL, 'NaN' FROM generate_series(1, 3)",
    "DELETE FROM logs WHERE ctid IN (SELECT ctid FROM logs WHERE message = 'the same' LIMIT 2)",
    "UPDATE logs SET message = repeat(md5(random()::text), 400) WHERE message = 'copied'",
    "UPDATE logs SET level = 'warning' WHERE level = 'info' AND message <> 'the same'",
    "UPDATE logs SET level = 'none' WHERE level IS NULL",
    "INSERT INTO logs VALUES (NULL, NULL, NULL, NULL, NULL), (NULL, NULL, NULL, NULL, NULL)",
)
OTHER_KEYS = (
    "CREATE TABLE badges (id int PRIMARY KEY, code text NOT NULL UNIQUE, owner text)",
    "ALTER TABLE badges REPLICA IDENTITY USING INDEX badges_code_key",
    "INSERT INTO badges VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z')",
    "CREATE TABLE seats (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, owner text)",
    "ALTER TABLE seats REPLICA IDENTITY FULL",
    "INSERT INTO seats VALUES (1, 'x'), (2, 'y')",
)
OTHER_CHANGES = (
    "UPDATE badges SET code = 'd' WHERE id = 1",
    "UPDATE badges SET id = 9 WHERE code = 'b'",
    "DELETE FROM badges WHERE id = 3",
    "BEGIN; INSERT INTO seats VALUES (1, 'z'); DELETE FROM seats WHERE id = 1 AND owner = 'x'; COMMIT",
    "UPDATE seats SET id = 3 - id",
)


def lake_alone(pipeline: Pipeline, *left_out: str) -> None:
    names = ", ".join(left_out)
    pipeline.configure("    kind: latest\n", f"    kind: latest\n    leave_out: [{names}]\n")
    pipeline.configure("    kind: search\n", f"    kind: search\n    leave_out: [{names}]\n")


def compared(report: Report) -> dict[str, list[str]]:
    return {name: sorted(str(table) for table in tables) for name, tables in report.followers.items()}


def test_equal_rows_come_and_go_one_by_one(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(
        "CREATE TABLE things (id int PRIMARY KEY)", *KEYLESS, tables=("public.things", "public.logs")
    )
    lake_alone(pipeline, "public.logs")
    booted(pipeline, spark)
    pipeline.run(*CHANGES)
    caught_up(pipeline, spark)
    report = verified(pipeline, spark)
    assert report.equal
    assert compared(report) == {
        "lake": ["public.logs", "public.things"],
        "search": ["public.things"],
        "latest": ["public.things"],
    }
    pipeline.run("BEGIN; DELETE FROM logs; TRUNCATE logs; INSERT INTO logs VALUES (NULL, 'last'); COMMIT")
    caught_up(pipeline, spark)
    assert verified(pipeline, spark).equal


def test_keys_that_are_not_primary(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*OTHER_KEYS, tables=("public.badges", "public.seats"))
    lake_alone(pipeline, "public.seats")
    booted(pipeline, spark)
    pipeline.run(*OTHER_CHANGES)
    caught_up(pipeline, spark)
    assert verified(pipeline, spark).equal
