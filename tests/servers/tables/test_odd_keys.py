"""Keys and choices of tables with odd names reach Debezium as they were meant."""

import pytest
from pyspark.sql import SparkSession

from cdc.connect.source.access import connection as source
from cdc.run.tables.preflight import check_tables
from tests.support.cdc_inprocess import bootstrap, catch_up, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

ODD = (
    'CREATE TABLE "o,d:d;(k*e y" ("a,b:c;d" int NOT NULL, "(e*" text NOT NULL, of text)',
    'ALTER TABLE "o,d:d;(k*e y" REPLICA IDENTITY FULL',
    """INSERT INTO "o,d:d;(k*e y" VALUES (1, 'x', 'copied'), (1, 'y', 'copied')""",
)
ALIKE = (
    'CREATE TABLE t (id int PRIMARY KEY, "a.b" int NOT NULL UNIQUE, of text)',
    'ALTER TABLE t REPLICA IDENTITY USING INDEX "t_a.b_key"',
    "INSERT INTO t VALUES (1, 2, 'copied')",
    'CREATE TABLE "T" (id int PRIMARY KEY, "a.b" int)',
    'INSERT INTO "T" VALUES (1, 2), (3, 2)',
    "CREATE TABLE t_a (id int PRIMARY KEY, b int)",
    "INSERT INTO t_a VALUES (1, 2), (3, 2)",
)
"""Tables whose names Debezium takes for one, if nothing says otherwise."""
CHANGES = (
    """UPDATE "o,d:d;(k*e y" SET of = 'streamed' WHERE "(e*" = 'x'""",
    """DELETE FROM "o,d:d;(k*e y" WHERE "(e*" = 'y'""",
    """INSERT INTO "o,d:d;(k*e y" VALUES (2, 'x', 'streamed')""",
    "UPDATE t SET of = 'streamed'",
    'UPDATE "T" SET id = id + 10',
    "DELETE FROM t_a WHERE id = 3",
    "INSERT INTO t_a VALUES (4, 2)",
)


def follow_all(pipeline: Pipeline, spark: SparkSession, *changes: str) -> None:
    bootstrap(pipeline, spark)
    pipeline.run(*changes)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert not problems(pipeline)


def test_chosen_keys_of_odd_names_are_the_keys_of_their_tables_only(
    make_pipeline: MakePipeline, spark: SparkSession
) -> None:
    names = ("public.o,d:d;(k*e y", "public.t", "public.T", "public.t_a")
    pipeline = make_pipeline(*ODD, *ALIKE, tables=names, lake_only=True)
    chosen = """  keys: {"public.o,d:d;(k*e y": ["a,b:c;d", "(e*"]}"""
    pipeline.configure("\nsource:\n", f"\nsource:\n{chosen}\n")
    follow_all(pipeline, spark, *CHANGES)


def test_column_that_debezium_takes_for_another_tables_key_is_refused(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(
        'CREATE TABLE a (id int PRIMARY KEY, "b.c" int NOT NULL UNIQUE)',
        'ALTER TABLE a REPLICA IDENTITY USING INDEX "a_b.c_key"',
        'CREATE TABLE "a.b" (id int PRIMARY KEY, c int)',
        tables=("public.a", "public.a.b"),
    )
    settings = pipeline.settings
    with source.open_connection(settings.source) as connection:
        _, refusals = check_tables(connection, pipeline.opened(), settings.selection.names, set())
    told = [str(reason) for reasons in refusals.values() for reason in reasons if "Debezium cannot tell" in str(reason)]
    assert told == [
        "public.a: Debezium cannot tell column b.c of its key from a column of public.a.b → leave one of the two tables"
        " out, or rename it or the column"
    ]


@pytest.mark.parametrize("name", ["the\tdated\nrows", "50%20 off"], ids=ascii)
def test_dates_of_a_table_with_control_characters_in_its_name_are_followed_as_text(
    make_pipeline: MakePipeline, spark: SparkSession, name: str
) -> None:
    pipeline = make_pipeline(
        f'CREATE TABLE "{name}" (id int PRIMARY KEY, day date, other date)',
        f"""INSERT INTO "{name}" VALUES (1, 'infinity', '2020-01-01')""",
        tables=("public.things",),
        lake_only=True,
    )
    quoted = ascii(f"public.{name}").replace("'", '"')
    pipeline.configure("- public.things", f"- {quoted}\n  column_types: {{{quoted}: {{day: text}}}}")
    follow_all(pipeline, spark, f"""INSERT INTO "{name}" VALUES (2, '-infinity', '2020-01-02')""")
