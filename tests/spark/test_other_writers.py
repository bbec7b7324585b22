"""Other writers may move rows between files; when they change rows, the table is copied again."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import PreconditionError
from cdc.sinks.lake.delta.actions import Action, Metadata, Remove, decode_commit, of_type
from cdc.sinks.lake.delta.other_writers import find_write_blocker
from cdc.sinks.lake.delta.snapshot import Snapshot
from tests.support.further import further
from tests.support.histories import THINGS
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables import read_by_delta_rs, row
from tests.support.lake.tables_at import (
    KEYS,
    OTHERS,
    TABLES,
    bootstrap_follower,
    copy,
    cut_tables,
    follower_of,
    rows_at,
    rows_in,
    transact,
)

ROW_CHANGES = {
    "RESTORE": "RESTORE TABLE delta.`{folder}` TO VERSION AS OF 0",
    "DELETE": "DELETE FROM delta.`{folder}` WHERE id IN (1, 2)",
    "UPDATE": "UPDATE delta.`{folder}` SET big = 'theirs' WHERE id = 1",
    "WRITE": "INSERT INTO delta.`{folder}` VALUES (1, 1, 'theirs')",
    "TRUNCATE": "TRUNCATE TABLE delta.`{folder}`",
}
PROPERTIES = {
    "delta.appendOnly = true": "TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "delta.enableDeletionVectors = false": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
    "delta.setTransactionRetentionDuration = interval 1 hour": (
        "TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 hour')"
    ),
}
FEATURES = {
    "columnMapping": "delta.columnMapping.mode' = 'name",
    "inCommitTimestamp": "delta.enableInCommitTimestamps' = 'true",
    "rowTracking": "delta.enableRowTracking' = 'true",
    "typeWidening": "delta.enableTypeWidening' = 'true",
    "v2Checkpoint": "delta.checkpointPolicy' = 'v2",
}
MOMENTS = WHILE_FOLLOWED, BETWEEN_RUNS, IN_A_CHECKPOINT = (
    "while it is followed",
    "between two runs",
    "and a checkpoint stands for it",
)
# RESTORE revives files that were removed: a checkpoint has them as such, too
TRIED_LATER = {("DELETE", BETWEEN_RUNS), ("RESTORE", IN_A_CHECKPOINT)}
LIKE_DELETE = ("UPDATE", "TRUNCATE")
"""Operations that take rows of files away, as DELETE does."""


def row_changes() -> Iterator["pytest.ParameterSet"]:
    """Each kind of operation while the table is followed, and one at each other moment. Which operation it was and when
    it is noticed are found in different places: the other pairs are further ones."""
    for operation, when in product(ROW_CHANGES, MOMENTS):
        if (when == WHILE_FOLLOWED and operation not in LIKE_DELETE) or (operation, when) in TRIED_LATER:
            yield pytest.param(operation, when, id=f"{operation}-{when}")
        else:
            yield further(f"{operation}-{when}", operation, when)


@pytest.fixture
def lake(tmp_path: Path) -> PlacedLake:
    return in_folder(tmp_path)


def read_actions(lake: PlacedLake, version: int) -> list[Action]:
    """The actions of a version of the table."""
    return decode_commit((lake.disk(THINGS.name) / f"_delta_log/{version:020}.json").read_bytes())


def by_spark(spark: SparkSession, lake: PlacedLake, statement: str) -> None:
    spark.sql(statement.format(folder=lake.folder(THINGS.name))).collect()


def check_recopied(lake: PlacedLake) -> None:
    """The other table went on; a new copy of this one joins, and the other writer's rows are gone."""
    assert cut_tables(lake) == {str(OTHERS.name)}
    follower = follower_of(lake)
    copy(lake, follower, THINGS, 30, "at 30")
    transact(follower, 40)
    assert [rows_in(lake, table) for table in TABLES] == [rows_at("at 40")] * 2
    assert {key: values["big"] for key, values in read_by_delta_rs(lake).items()} == dict.fromkeys(KEYS, "at 40")
    assert not follower_of(lake).check_tables()


@pytest.mark.parametrize(("operation", "when"), list(row_changes()))
def test_row_changes_of_other_writers_stop_the_table(
    spark: SparkSession, lake: PlacedLake, operation: str, when: str
) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    if (operation, when) == ("RESTORE", IN_A_CHECKPOINT):
        # whose is as any other's in a checkpoint, and Spark's takes five seconds
        DeltaTable(lake.folder(THINGS.name)).restore(0)
    else:
        by_spark(spark, lake, ROW_CHANGES[operation])
    reason = f"another writer's {operation} (version 2) changed its rows"
    if when == WHILE_FOLLOWED:
        [line] = transact(follower, 30)
        assert line == f"public.things is followed no further than 0/A: {reason}"
    else:
        if when == IN_A_CHECKPOINT:
            DeltaTable(lake.folder(THINGS.name)).create_checkpoint()
        follower = follower_of(lake)
        [stop] = follower.check_tables()
        assert (stop.name, stop.reason, stop.copy) == (THINGS.name, reason, True)
        transact(follower, 30)
    check_recopied(lake)


def test_rows_appended_by_delta_rs_stop_the_table(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    rows = pa.Table.from_pylist([dict(row(1, "theirs"))], arrow_schema(THINGS))
    write_deltalake(lake.folder(THINGS.name), rows, mode="append")
    [stop] = transact(follower, 30)
    assert "another writer's WRITE (version 1) changed its rows" in stop
    check_recopied(lake)


def test_restored_files_count_as_row_changes(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    # all of its rows have gone with that transaction
    [gone] = [remove.path for remove in of_type(read_actions(lake, 1), Remove)]
    back = {"path": gone, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": False, "stats": "{}"}
    lines = [{"commitInfo": {"operation": "ODD"}}, {"add": back}]
    entry = lake.disk(THINGS.name) / f"_delta_log/{2:020}.json"
    entry.write_text("".join(json.dumps(line) + "\n" for line in lines))
    [stop] = transact(follower, 30)
    assert "another writer's ODD (version 2) changed its rows" in stop


@pytest.mark.parametrize("properties", PROPERTIES)
def test_an_unsupported_property_is_refused_by_name(spark: SparkSession, lake: PlacedLake, properties: str) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    by_spark(spark, lake, "ALTER TABLE delta.`{folder}` SET " + PROPERTIES[properties])
    [stop] = transact(follower, 30)
    assert f"table public.things of the lake was given {properties}, " in stop
    name = properties.partition(" ")[0]
    undo = f"ALTER TABLE delta.`{lake.folder(THINGS.name)}` UNSET TBLPROPERTIES ('{name}')"
    assert undo in stop
    # a copy takes rows away, too
    with pytest.raises(PreconditionError, match=name):
        copy(lake, follower_of(lake), THINGS, 30, "at 30")
    spark.sql(undo)
    check_recopied(lake)


@pytest.mark.parametrize(
    "feature", [each if each in ("columnMapping", "v2Checkpoint") else further(each, each) for each in FEATURES]
)
def test_an_unknown_feature_stops_its_table_alone(spark: SparkSession, lake: PlacedLake, feature: str) -> None:
    """Whatever is declared and not known is one case; a property may tell of it, or another form of the log."""
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    by_spark(spark, lake, f"ALTER TABLE delta.`{{folder}}` SET TBLPROPERTIES ('{FEATURES[feature]}')")
    [stop] = transact(follower, 30)
    assert stop.startswith("public.things is followed no further than 0/A: table public.things of the lake was given ")
    assert feature in stop
    assert cut_tables(lake) == {str(OTHERS.name)}
    [again] = follower_of(lake).tables.stops()
    assert feature in again.reason
    with pytest.raises(PreconditionError, match=feature):
        copy(lake, follower_of(lake), THINGS, 30, "at 30")


def test_an_unchecked_constraint_is_refused_by_name(spark: SparkSession, lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    transact(follower, 10)
    by_spark(spark, lake, "ALTER TABLE delta.`{folder}` ADD CONSTRAINT positive CHECK (id >= 0)")
    [stop] = transact(follower, 30)
    given = "table public.things of the lake was given delta.constraints.positive = id >= 0, which cdc cannot check"
    assert given in stop


@pytest.mark.parametrize(
    ("column", "constraint"),
    [
        ({"nullable": False}, "NOT NULL on column small"),
        ({"metadata": {"delta.generationExpression": "id + 1"}}, "delta.generationExpression on column small"),
        ({"metadata": {"comment": "mine"}}, None),
    ],
)
def test_a_column_constraint_is_refused_by_name(column: dict[str, object], constraint: str | None) -> None:
    """Spark cannot add such a constraint to an existing column."""
    fields = [{"name": "small", "type": "integer", "nullable": True, "metadata": {}, **column}]
    blocker = find_write_blocker(Snapshot(metadata=Metadata("id", json.dumps({"fields": fields}), "t")), "/lake/t")
    assert (blocker and blocker.what) == (
        constraint and f"table t of the lake was given {constraint}, which cdc cannot check"
    )


def test_other_properties_are_accepted(spark: SparkSession, lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    harmless = ["'delta.logRetentionDuration' = 'interval 60 days'", "'delta.dataSkippingNumIndexedCols' = '1'"]
    harmless += ["'delta.appendOnly' = 'false'", "'delta.checkpoint.writeStatsAsStruct' = 'true'", "'mine' = 'x'"]
    by_spark(spark, lake, f"ALTER TABLE delta.`{{folder}}` SET TBLPROPERTIES ({', '.join(harmless)})")
    assert not transact(follower, 30)
    assert not follower_of(lake).check_tables()
    assert rows_in(lake, THINGS) == rows_at("at 30")
