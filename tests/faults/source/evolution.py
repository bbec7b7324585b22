"""Tables, the changes of their schemas that policy `evolve` follows, and what is asked of them after it."""

from pyspark.sql import SparkSession

from cdc.core.table import TableName
from cdc.sinks.lake import layout
from tests.support.cdc_inprocess import verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

MADE = "CREATE TABLE {t} (id int PRIMARY KEY, a int, b numeric(5, 3), c varchar(10), d text)"
APART = "ALTER TABLE {t} ALTER d SET STORAGE EXTERNAL"
FILLED = (
    "INSERT INTO {t} VALUES (1, 1, 12.345, 'c', 'd'), (2, NULL, NULL, NULL, NULL), (3, 3, 3, 'x', repeat('y', 9000))"
)
LARGE = "UPDATE {t} SET a = a + 1"
"""It leaves the large value of `d` unsent."""

WIDENED = {
    "came": ("ALTER TABLE {t} ADD COLUMN e date", "INSERT INTO {t} VALUES (4, 4, 4, '4', '4', '2024-02-29')", LARGE),
    "came_within": (
        "BEGIN; UPDATE {t} SET a = 7 WHERE id = 1; ALTER TABLE {t} ADD COLUMN e int[]; UPDATE {t} SET"
        " e = '{{1,2}}' WHERE id = 2; ALTER TABLE {t} ADD COLUMN f timestamp; INSERT INTO {t} (id, f) VALUES"
        " (5, '2024-01-01'); COMMIT",
        LARGE,
    ),
    "another_value": (
        "CREATE TYPE {t}_e AS ENUM ('a', 'b')",
        "ALTER TABLE {t} ADD COLUMN e {t}_e, ADD COLUMN f {t}_e[]",
        "ALTER TYPE {t}_e ADD VALUE 'n' BEFORE 'b'",
        "UPDATE {t} SET e = 'n', f = '{{n,a}}' WHERE id = 1",
    ),
    "twice": (
        "ALTER TABLE {t} ADD COLUMN e int",
        LARGE,
        "ALTER TABLE {t} ADD COLUMN f int DEFAULT NULL",
        "DELETE FROM {t} WHERE id = 2",
    ),
    "same": (
        "ALTER TABLE {t} ALTER c TYPE varchar(20)",
        "ALTER TABLE {t} ALTER a SET DEFAULT 5",
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)",
        "INSERT INTO {t} (id, c) VALUES (4, 'more than ten')",
        "CREATE INDEX ON {t} (a)",
        "VACUUM FULL {t}",
    ),
    "wide_keyless": ("ALTER TABLE {t} ADD COLUMN e int", LARGE, "DELETE FROM {t} WHERE id = 2", "UPDATE {t} SET e = 1"),
}
COPIED = {
    "filled": ("ALTER TABLE {t} ADD COLUMN e int DEFAULT 7", "INSERT INTO {t} (id) VALUES (4)", LARGE),
    "volatile": ("ALTER TABLE {t} ADD COLUMN e uuid NOT NULL DEFAULT gen_random_uuid()", LARGE),
    "went": ("ALTER TABLE {t} DROP COLUMN b", LARGE, "INSERT INTO {t} VALUES (4, 4, '4')"),
    "went_and_came": ("ALTER TABLE {t} DROP COLUMN b", "ALTER TABLE {t} ADD COLUMN b int DEFAULT 999"),
    "renamed_column": ("ALTER TABLE {t} RENAME a TO z", "INSERT INTO {t} (id, z) VALUES (4, 4)"),
    "wider": ("ALTER TABLE {t} ALTER a TYPE bigint", "INSERT INTO {t} (id, a) VALUES (4, 5000000000)"),
    "more_digits": ("ALTER TABLE {t} ALTER b TYPE numeric(9, 3)", "INSERT INTO {t} (id, b) VALUES (4, 123456.789)"),
    "narrowed_and_back": ("ALTER TABLE {t} ALTER b TYPE numeric(4, 2)", "ALTER TABLE {t} ALTER b TYPE numeric(5, 3)"),
    "other_type": ("ALTER TABLE {t} ALTER a TYPE text USING 'number ' || a", LARGE.replace("a + 1", "a || '!'")),
    "rewritten": ("ALTER TABLE {t} ALTER a TYPE int USING -a",),
    "other_key": (
        "ALTER TABLE {t} ALTER c SET NOT NULL, DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id, c)",
        "INSERT INTO {t} (id, c) VALUES (1, 'another')",
    ),
    "computed_no_more": (
        "ALTER TABLE {t} ADD COLUMN e int GENERATED ALWAYS AS (a * 2) STORED",
        "ALTER TABLE {t} ALTER e DROP EXPRESSION",
        "INSERT INTO {t} (id, e) VALUES (4, 99)",
    ),
    "came_twice": (
        "BEGIN; ALTER TABLE {t} ADD COLUMN e int; INSERT INTO {t} (id, e) VALUES (4, 5); ALTER TABLE {t} DROP COLUMN e;"
        " ALTER TABLE {t} ADD COLUMN e int; COMMIT",
    ),
    "renamed_and_back": (
        "BEGIN; ALTER TABLE {t} RENAME c TO z; ALTER TABLE {t} RENAME d TO c; UPDATE {t} SET c = 'c of d', z = 'was c';"
        " ALTER TABLE {t} RENAME c TO d; ALTER TABLE {t} RENAME z TO c; COMMIT",
    ),
    "clustered": (
        "BEGIN; ALTER TABLE {t} ADD COLUMN e int DEFAULT 7; CLUSTER {t} USING {t}_pkey;"
        " CREATE INDEX ON {t} (e); COMMIT",
    ),
    "another_label": (
        "CREATE TYPE {t}_e AS ENUM ('a', 'b')",
        "ALTER TABLE {t} ADD COLUMN e {t}_e",
        "UPDATE {t} SET e = 'a' WHERE id = 1",
        "ALTER TYPE {t}_e RENAME VALUE 'a' TO 'z'",
        "ALTER TYPE {t}_e ADD VALUE 'n' BEFORE 'b'",
    ),
    "another_part": (
        "CREATE TYPE {t}_c AS (x int)",
        "ALTER TABLE {t} ADD COLUMN e {t}_c[]",
        "UPDATE {t} SET e = ARRAY[ROW(1)::{t}_c] WHERE id = 1",
        "ALTER TYPE {t}_c ADD ATTRIBUTE y int",
    ),
    "by_case": (
        'ALTER TABLE {t} ADD COLUMN "A" int',
        LARGE,
        'ALTER TABLE {t} RENAME "A" TO other',
        LARGE,
    ),
    "taken_out": (
        "DO $$ BEGIN EXECUTE (SELECT format('ALTER PUBLICATION %I DROP TABLE {t}', pubname) FROM pg_publication_tables"
        " WHERE tablename = '{t}'); END $$",
        LARGE,
    ),
    "made_again": (
        "DROP TABLE {t}",
        "CREATE TABLE {t} (id bigint PRIMARY KEY, note jsonb)",
        """INSERT INTO {t} VALUES (9, '{{"a": 1}}')""",
    ),
    "replaced": (
        "CREATE TABLE {t}_new (id int PRIMARY KEY, n int)",
        "INSERT INTO {t}_new VALUES (1, 1)",
        "BEGIN; ALTER TABLE {t} RENAME TO {t}_old; ALTER TABLE {t}_new RENAME TO {t}; COMMIT",
        "INSERT INTO {t} VALUES (2, 2)",
    ),
}
CHANGES = {**WIDENED, **COPIED}
BEHIND_THE_LAKE = frozenset(
    {"came", "came_within", "twice", "same", "filled", "went", "renamed_column", "wider", "other_type", "other_key"}
    | {"by_case", "taken_out", "made_again"}
)
"""Of these, the followers behind the lake see something of their own: the others are one more new copy to them, or
nothing, however the lake came to it."""


def make_tables(make_pipeline: MakePipeline, names: dict[str, tuple[str, ...]], *, lake_only: bool = True) -> Pipeline:
    """A pipeline of these tables; who follows the lake, unless it is `lake_only`, has those of BEHIND_THE_LAKE."""
    statements = [text.format(t=name) for name in names for text in (MADE, APART, FILLED)]
    pipeline = make_pipeline(*statements, tables=tuple(f"public.{name}" for name in names), lake_only=lake_only)
    # before they are copied: a table that gets its key by another way later
    for name in (name for name in names if name == "other_key"):
        pipeline.run(f"UPDATE {name} SET c = 'x' WHERE c IS NULL")
    if "wide_keyless" in names:
        pipeline.run("ALTER TABLE wide_keyless DROP CONSTRAINT wide_keyless_pkey, REPLICA IDENTITY FULL")
    left_out = ", ".join(f"public.{name}" for name in names if name not in BEHIND_THE_LAKE)
    for kind in () if lake_only or not left_out else ("search", "latest"):
        pipeline.configure(f"    kind: {kind}\n", f"    kind: {kind}\n    leave_out: [{left_out}]\n")
    return pipeline


def alter_tables(pipeline: Pipeline, names: dict[str, tuple[str, ...]]) -> None:
    pipeline.run(*(text.format(t=name) for name, texts in names.items() for text in texts))


def ids(pipeline: Pipeline) -> dict[str, str]:
    """The lake's tables by their ids: one that was copied again has another."""
    lake = pipeline.opened().lake
    logs = {name.table: layout.open_owned_log(lake, name) for name in pipeline.settings.selection.names}
    return {name: log.snapshot.table_id for name, log in logs.items() if log}


def columns(pipeline: Pipeline, name: str) -> list[str]:
    log = layout.open_owned_log(pipeline.opened().lake, TableName("public", name))
    table = layout.table_of(log.snapshot) if log else None
    return list(table.column_names) if table else []


def differing(pipeline: Pipeline, spark: SparkSession) -> dict[str, object]:
    """The tables that differ, by follower, and those that are stopped."""
    report = verify(pipeline, spark)
    compared = [
        (f"{name} {table}", verdict) for name, each in report.followers.items() for table, verdict in each.items()
    ]
    assert len(compared) > len(report.followers)
    return {
        **{told: verdict for told, verdict in compared if not (verdict.comparison and verdict.comparison.equal)},
        **{f"stopped {name}": told for name, told in report.stopped.items()},
    }
