"""Partitioned tables: one table to followers, whatever changes in its partitions, with real servers."""

import pytest
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.connect.source import catalog
from cdc.connect.source.access import connection as source
from cdc.connect.source.catalog import TablesRefusedError
from tests.faults.source.evolution import differing, ids
from tests.support.cdc_inprocess import bootstrap, catch_up, following, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

MADE = (
    "CREATE TABLE {t} (place text, id int, n int, note text, PRIMARY KEY (id, place)) PARTITION BY LIST (place)",
    "CREATE TABLE {t}_a PARTITION OF {t} FOR VALUES IN ('a') PARTITION BY RANGE (id)",
    "CREATE TABLE {t}_a_low PARTITION OF {t}_a FOR VALUES FROM (0) TO (1000)",
    # its columns stand in another order, and one that was dropped is among them
    "CREATE TABLE {t}_a_high (gone int, note text, n int, id int NOT NULL, place text NOT NULL)",
    "ALTER TABLE {t}_a_high DROP COLUMN gone, ALTER note SET STORAGE EXTERNAL",
    "ALTER TABLE {t}_a ATTACH PARTITION {t}_a_high FOR VALUES FROM (1000) TO (100000)",
    "CREATE TABLE \"{t} B\" PARTITION OF {t} FOR VALUES IN ('b')",
    "INSERT INTO {t} SELECT 'a', g * 7, g, repeat('x', g * 20) FROM generate_series(1, 400) g",
    "INSERT INTO {t} SELECT 'b', g, g, NULL FROM generate_series(1, 50) g",
)
CHANGED = (
    "UPDATE {t} SET n = n + 1 WHERE id % 2 = 0",
    # from one part into another, and from there back
    "UPDATE {t} SET place = 'b' WHERE id BETWEEN 1400 AND 1500",
    "UPDATE {t} SET id = id + 1000 WHERE id < 300 AND place = 'a'",
    "DELETE FROM {t} WHERE id % 5 = 0",
    "INSERT INTO {t} VALUES ('b', 5000, 1, 'new')",
)
FOLLOWED = {
    "changed": (),
    "emptied": (
        "BEGIN; INSERT INTO {t} VALUES ('b', 5001, 1); TRUNCATE {t}; INSERT INTO {t} VALUES ('b', 1, 1); COMMIT",
    ),
    "new_part": (
        "CREATE TABLE {t}_c PARTITION OF {t} FOR VALUES IN ('c')",
        "INSERT INTO {t} VALUES ('c', 1, 1)",
        "UPDATE {t} SET place = 'a' WHERE place = 'c'",
    ),
    "empty_part": (
        "CREATE TABLE {t}_d (LIKE {t} INCLUDING ALL)",
        "ALTER TABLE {t} ATTACH PARTITION {t}_d DEFAULT",
        "INSERT INTO {t} VALUES ('elsewhere', 1, 1)",
    ),
    "wider": ("ALTER TABLE {t} ADD COLUMN e date", "UPDATE {t} SET e = '2024-02-29' WHERE n > 100"),
}
COPIED = {
    "full_part": (
        "CREATE TABLE {t}_d (LIKE {t} INCLUDING ALL)",
        "INSERT INTO {t}_d SELECT 'd', g, g, '' FROM generate_series(1, 30) g",
        "ALTER TABLE {t} ATTACH PARTITION {t}_d FOR VALUES IN ('d')",
        "UPDATE {t} SET n = 0 WHERE place = 'd' AND id < 5",
    ),
    "taken_off": ('ALTER TABLE {t} DETACH PARTITION "{t} B"', 'UPDATE "{t} B" SET n = -1'),
    "dropped_part": ("DROP TABLE {t}_a_high",),
    "emptied_part": ("TRUNCATE {t}_a_low", "INSERT INTO {t} VALUES ('b', 7000, 1)"),
    "filled": ("ALTER TABLE {t} ADD COLUMN e int DEFAULT 7", "UPDATE {t} SET n = n + 1 WHERE id % 3 = 0"),
    "other_type": ("ALTER TABLE {t} ALTER n TYPE text USING 'number ' || n",),
}
CASES = {**FOLLOWED, **COPIED}
KEYLESS = (
    "CREATE TABLE keyless (n int, note text) PARTITION BY RANGE (n)",
    "CREATE TABLE keyless_low PARTITION OF keyless FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE keyless_rest PARTITION OF keyless DEFAULT",
    "ALTER TABLE keyless REPLICA IDENTITY FULL",
    "ALTER TABLE keyless_low REPLICA IDENTITY FULL",
    "ALTER TABLE keyless_rest REPLICA IDENTITY FULL",
    "INSERT INTO keyless SELECT g / 2, 'x' FROM generate_series(1, 40) g",
)
INHERITED = (
    "CREATE TABLE parent (id int PRIMARY KEY, n int)",
    "CREATE TABLE child (extra int) INHERITS (parent)",
    "INSERT INTO parent VALUES (1, 1), (2, 2)",
    "INSERT INTO child VALUES (1, 1, 1), (3, 3, 3)",
)


def test_every_change_of_partitions(
    make_pipeline: MakePipeline,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    statements = [text.format(t=name) for name in CASES for text in MADE]
    names = [*CASES, "keyless", "parent"]
    tables = tuple(f"public.{name}" for name in names)
    pipeline = make_pipeline(*statements, *KEYLESS, *INHERITED, tables=tables, lake_only=True)
    bootstrap(pipeline, spark)
    before = ids(pipeline)
    pipeline.run(*(text.format(t=name) for name in CASES for text in CHANGED))
    pipeline.run("UPDATE keyless SET n = n + 5 WHERE n > 7", "DELETE FROM keyless WHERE n < 3")
    pipeline.run(
        "UPDATE parent SET n = n + 10", "DELETE FROM parent WHERE id = 3", "DELETE FROM ONLY parent WHERE id = 2"
    )
    pipeline.run(*(text.format(t=name) for name, texts in CASES.items() for text in texts))
    catch_up(pipeline, spark)
    after = ids(pipeline)
    # a TRUNCATE of the whole gives each part another file, as one of a part does: it is copied, which is quick then
    assert {name for name in before if before[name] == after[name]} - {"emptied"} == {
        *FOLLOWED,
        "keyless",
        "parent",
    } - {"emptied"}
    # the other rows are still what the copy and the changes before made of them
    pipeline.run(*(f"UPDATE {name} SET note = 'again' WHERE id % 3 = 0" for name in CASES))
    catch_up(pipeline, spark)
    assert differing(pipeline, spark) == {}
    assert not bootstrap(pipeline, spark).has_changed
    check_child_is_told(pipeline, spark, monkeypatch, capsys)


def check_child_is_told(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of `child` are nowhere, which is told until the file says that it is meant so."""
    remedy = 'name it in source.tables to follow it by itself, or as "!public.child" if that is meant'
    told = "public.parent is followed without the rows of what inherits from it: public.child"
    assert problems(pipeline) == [f"{told} → {remedy}"]
    pipeline.set_environ(monkeypatch)
    capsys.readouterr()
    main(["--config", str(pipeline.config), "config", "check"])
    assert f"{told} → {remedy}" in capsys.readouterr().err
    with following(pipeline, spark) as running:
        running.wait_for(told)
    pipeline.configure("- public.parent\n", '- public.parent\n    - "!public.child"\n')
    assert problems(pipeline) == []


def test_partition_truncated_during_follow(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*(text.format(t="parts") for text in MADE), tables=("public.parts",), lake_only=True)
    bootstrap(pipeline, spark)
    with following(pipeline, spark) as running:
        pipeline.run("TRUNCATE parts_a_low")
        running.wait_for("its schema has changed: a partition with rows came or went, or was emptied")
        running.wait_for("public.parts is copied again: ")
        assert verify(pipeline, spark).is_equal


REFUSED = (
    *(text.format(t="several") for text in MADE),
    "ALTER TABLE several_a_low REPLICA IDENTITY FULL",
    "CREATE TABLE unlogged (id int PRIMARY KEY) PARTITION BY LIST (id)",
    "CREATE UNLOGGED TABLE unlogged_1 PARTITION OF unlogged FOR VALUES IN (1)",
    "CREATE TABLE indexed (id int NOT NULL) PARTITION BY LIST (id)",
    "CREATE UNIQUE INDEX indexed_id ON indexed (id)",
    "ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_id",
    "CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY LIST (id)",
    "CREATE TABLE part PARTITION OF whole FOR VALUES IN (1)",
    "CREATE VIEW looked AS SELECT 1 AS id",
)


def test_unsupported_tables_are_refused_before_the_start(make_pipeline: MakePipeline) -> None:
    names = ("several", "unlogged", "indexed", "whole", "part", "looked")
    pipeline = make_pipeline(*REFUSED, tables=tuple(f"public.{name}" for name in names))
    with source.open_connection(pipeline.settings.source) as connection, pytest.raises(TablesRefusedError) as refused:
        catalog.read_tables(connection, pipeline.settings.selection.names)
    told = {line.partition(" → ")[0] for line in refused.value.lines}
    assert told == {
        "public.several_a_low, a part of public.several, has another replica identity: FULL, not DEFAULT",
        "public.unlogged_1, a part of public.unlogged, is not logged, so no change of it can be captured",
        "public.indexed is partitioned, and its replica identity is an index: that of each part may be another",
        "public.part is a part of public.whole, under whose name its changes come",
        "public.looked is no table",
    }
