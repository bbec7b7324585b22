"""Tables without a primary key, with real servers."""

import pytest
from pyspark.sql import SparkSession

from cdc.connect.source.access import connection as source
from cdc.run.tables.preflight import check_tables
from cdc.run.verify.report import Report
from tests.support.cdc_inprocess import bootstrap, catch_up, catch_up_but_for, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

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


def compared_tables(report: Report) -> dict[str, list[str]]:
    return {name: sorted(str(table) for table in tables) for name, tables in report.followers.items()}


NAMED = (
    "CREATE TABLE events (place text NOT NULL, number int NOT NULL, body text, at timestamptz)",
    "ALTER TABLE events ALTER body SET STORAGE EXTERNAL, REPLICA IDENTITY FULL",
    "INSERT INTO events SELECT 'p' || g % 3, g, repeat('x', g * 100), NULL FROM generate_series(1, 60) g",
)
NAMED_CHANGES = (
    "UPDATE events SET at = now() WHERE number % 2 = 0",
    # another key, with and without the long value
    "UPDATE events SET number = -number WHERE number < 20",
    "UPDATE events SET place = 'q', body = 'other' WHERE number > 50",
    "DELETE FROM events WHERE number = 30",
    "BEGIN; DELETE FROM events WHERE number = 31; INSERT INTO events VALUES ('p1', 31, 'again', now()); COMMIT",
    "ALTER TABLE events ADD COLUMN more int",
    "UPDATE events SET more = 1 WHERE number = 40",
)


def test_tables_without_a_primary_key(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    """One pipeline for equal rows that come and go one by one, a unique index as key, and a key that is named."""
    held, alone = ("badges", "events", "things"), ("logs", "seats")
    statements = ("CREATE TABLE things (id int PRIMARY KEY)", *KEYLESS, *OTHER_KEYS, *NAMED)
    pipeline = make_pipeline(*statements, tables=tuple(f"public.{name}" for name in (*held, *alone)))
    lake_alone(pipeline, *(f"public.{name}" for name in alone))
    pipeline.configure("  on_schema_change:", "  keys: {public.events: [place, number]}\n  on_schema_change:")
    bootstrap(pipeline, spark)
    pipeline.run(*CHANGES, *OTHER_CHANGES, *NAMED_CHANGES)
    catch_up(pipeline, spark)
    report = verify(pipeline, spark)
    assert report.is_equal
    of_followers = [f"public.{name}" for name in held]
    assert compared_tables(report) == {
        "lake": sorted(f"public.{name}" for name in (*held, *alone)),
        "search": of_followers,
        "latest": of_followers,
    }
    pipeline.run("BEGIN; DELETE FROM logs; TRUNCATE logs; INSERT INTO logs VALUES (NULL, 'last'); COMMIT")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    # what the user has promised does not hold
    pipeline.run("INSERT INTO events SELECT * FROM events WHERE number = 40")
    catch_up_but_for(pipeline, spark, r"public\.events .*1 row inserted whose key \(place, number\)")


@pytest.mark.parametrize(
    ("key", "statement", "told"),
    [
        ("number", "SELECT 1", "source.keys names (number), which several rows have"),
        ("place, at", "SELECT 1", "source.keys names at, which it does not have, or which may be null"),
        ("place, number", "ALTER TABLE events REPLICA IDENTITY NOTHING", "the log does not have its whole rows"),
    ],
)
def test_key_that_is_not_unique_is_refused(make_pipeline: MakePipeline, key: str, statement: str, told: str) -> None:
    pipeline = make_pipeline(*NAMED, "INSERT INTO events VALUES ('p', 1)", statement, tables=("public.events",))
    pipeline.configure("  on_schema_change:", f"  keys: {{public.events: [{key}]}}\n  on_schema_change:")
    settings = pipeline.settings
    with source.open_connection(settings.source) as connection:
        _, refusals = check_tables(connection, pipeline.opened(), settings.selection.names, set())
    assert any(told in str(refusal) for found in refusals.values() for refusal in found)
