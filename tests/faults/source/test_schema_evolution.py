"""Schema changes with policy `evolve`: the followers go on by themselves, with real servers."""

import secrets
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from cdc.core.table import TableName
from cdc.sinks.lake import layout
from tests.support.cdc_inprocess import bootstrap, catch_up, catch_up_but_for, following, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.parts.servers_fixture import Servers
from tests.support.waiting import until

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


def test_every_schema_change_is_followed(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_tables(make_pipeline, CHANGES, lake_only=False)
    bootstrap(pipeline, spark)
    before = ids(pipeline)
    pipeline.run(*(LARGE.format(t=name) for name in CHANGES))
    alter_tables(pipeline, CHANGES)
    catch_up(pipeline, spark)
    after = ids(pipeline)
    assert {name for name in before if before[name] == after[name]} == set(WIDENED)
    assert columns(pipeline, "twice") == ["id", "a", "b", "c", "d", "e", "f"]
    # and so it goes on, with one row of each: the others are still what the change made of them
    pipeline.run(*(f"UPDATE {name} SET id = id + 100 WHERE id = (SELECT max(id) FROM {name})" for name in CHANGES))
    catch_up(pipeline, spark)
    assert differing(pipeline, spark) == {}
    assert not bootstrap(pipeline, spark).has_changed


def test_schema_change_during_follow(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    names = {name: CHANGES[name] for name in ("came", "filled", "same")}
    pipeline = make_tables(make_pipeline, names, lake_only=False)
    bootstrap(pipeline, spark)
    with following(pipeline, spark) as running:
        pipeline.run("UPDATE came SET a = 0 WHERE id = 1")
        running.wait_for("lake: 1 change")
        alter_tables(pipeline, names)
        running.wait_for("public.filled is copied again: 4 rows")
        assert verify(pipeline, spark).is_equal
        # a table that is gone is followed again once it is there
        pipeline.run("ALTER TABLE same RENAME TO gone")
        running.wait_for("not copied again yet: no table public.same in the source")
        pipeline.run("UPDATE came SET a = -1 WHERE id = 1", "ALTER TABLE gone RENAME TO same")
        running.wait_for("public.same is copied again: 4 rows")
        assert verify(pipeline, spark).is_equal


def test_repeated_resyncs_under_writes(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_tables(make_pipeline, {"filled": (), "same": ()})
    bootstrap(pipeline, spark)
    with (
        following(pipeline, spark) as running,
        repeat_statement(pipeline, "INSERT INTO filled (id) SELECT max(id) + 1 FROM filled"),
    ):
        for number in range(2):
            pipeline.run(f"ALTER TABLE filled ADD COLUMN e{number} int DEFAULT {number}")
            running.wait_for("public.filled is copied again")
            pipeline.run("UPDATE same SET a = a + 1")
            running.wait_for("lake: ")
    catch_up(pipeline, spark)
    assert differing(pipeline, spark) == {}


@contextmanager
def repeat_statement(pipeline: Pipeline, statement: str) -> Iterator[None]:
    """The statement is run again and again, on a session of its own, for as long as the context lasts."""
    done = threading.Event()

    def run() -> None:
        with pipeline.servers.connect(pipeline.settings.source.dbname) as connection:
            while not done.is_set():
                connection.execute(statement.encode())

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(run)
        try:
            yield
        finally:
            done.set()
    running.result()


def test_columns_that_differ_by_case_stop_only_their_table(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    names = {name: CHANGES[name] for name in ("came", "same")}
    pipeline = make_tables(make_pipeline, names)
    pipeline.run("CREATE TABLE child () INHERITS (came)", "ALTER TABLE child ADD PRIMARY KEY (id)")
    pipeline.configure("- public.came\n", "- public.came\n    - public.child\n")
    bootstrap(pipeline, spark)
    with following(pipeline, spark) as running:
        pipeline.run(
            'BEGIN; UPDATE came SET a = 7; ALTER TABLE came ADD COLUMN "A" int DEFAULT 1; UPDATE came SET a = 8;'
            " UPDATE same SET a = 9; COMMIT",
            "INSERT INTO child VALUES (1)",
        )
        # at once: what it stands before is no refusal of the source's, but a table that followers stop at
        assert set(map(str, verify(pipeline, spark).stopped)) == {"public.came", "public.child"}
        running.wait_for("not copied again yet: columns 'a' and 'A' of public.came differ by case only")
        # nor does the capture end that reads what tables there are
        with captureless(pipeline):
            pass
        pipeline.run("UPDATE same SET a = 10")
        report = verify(pipeline, spark)
        assert set(map(str, report.stopped)) == {"public.came", "public.child"}
        assert all(v.comparison and v.comparison.equal for t in report.followers.values() for v in t.values())
        pipeline.run('ALTER TABLE came RENAME COLUMN "A" TO other')
        running.wait_for("public.child is copied again: 1 row copied")
        until(lambda: not pipeline.opened().lake_follower.tables.stops(), "both take part again")
        pipeline.run("UPDATE came SET a = 11")
        assert verify(pipeline, spark).is_equal


@contextmanager
def captureless(pipeline: Pipeline) -> Iterator[None]:
    """The connector has no task meanwhile, and begins behind it as after a restart of its worker."""
    capture = pipeline.settings.connect
    with ConnectClient(capture.url) as client:
        client.stop(capture.connector)
        until(lambda: is_stopped(client, capture.connector), "the connector has no task")
        yield
        client.resume(capture.connector)


def test_table_with_policy_stop(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    names = {name: CHANGES[name] for name in ("came", "twice", "filled")}
    pipeline = make_tables(make_pipeline, names)
    pipeline.configure(
        "on_schema_change: evolve",
        "on_schema_change: additive\n  on_schema_change_of: {public.came: stop, public.filled: additive}",
    )
    bootstrap(pipeline, spark)
    alter_tables(pipeline, names)
    told = catch_up_but_for(pipeline, spark, r"public\.came .* column e came.*")
    assert "column e came, with a default" in told
    report = verify(pipeline, spark)
    assert list(map(str, report.stopped)) == ["public.came", "public.filled"]
    assert all(v.comparison and v.comparison.equal for t in report.followers.values() for v in t.values())
    assert len([line for line in problems(pipeline) if "cdc bootstrap --again" in line]) == 2
    bootstrap(pipeline, spark, "public.came", "public.filled")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal


@pytest.fixture
def role(servers: Servers) -> Iterator[str]:
    """A role that may replicate and is no superuser; it goes when the database is gone in which it owns something."""
    name = sql.Identifier(text := f"r{secrets.token_hex(5)}")
    with servers.connect() as admin:
        password = sql.Literal(servers.password)
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN REPLICATION PASSWORD {}").format(name, password))
    yield text
    owned = "SELECT count(*) FROM pg_shdepend JOIN pg_roles r ON r.oid = refobjid WHERE rolname = %s"
    with servers.connect() as admin:
        # the database is taken away beside this test
        until(lambda: admin.execute(owned, (text,)).fetchone() == (0,), "nothing is the role's")
        admin.execute(sql.SQL("DROP ROLE {}").format(name))


def give_tables_to(pipeline: Pipeline, role: str, names: Iterable[str]) -> None:
    """The role owns the tables, and the pipeline is its."""
    pipeline.run(*(f"ALTER TABLE {name} OWNER TO {role}" for name in names))
    pipeline.run(f"GRANT CREATE ON DATABASE {pipeline.settings.source.dbname} TO {role}")
    pipeline.run(f"GRANT CREATE ON SCHEMA public TO {role}")
    pipeline.configure("user: postgres", f"user: {role}")


def test_migration_reports_itself_without_event_triggers(
    role: str, make_pipeline: MakePipeline, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    # where a change differs is found as it is with event triggers: here is one of each way to notice it
    kept, copied = ("came",), ("filled", "rewritten", "narrowed_and_back", "taken_out", "made_again")
    names = {name: CHANGES[name] for name in (*kept, *copied)}
    pipeline = make_tables(make_pipeline, names)
    give_tables_to(pipeline, role, names)
    bootstrap(pipeline, spark)
    pipeline.run(f"SET ROLE {role}")
    assert "end a migration with SELECT cdc.shapes_now() to report its changes" in capsys.readouterr().err
    before = ids(pipeline)
    with following(pipeline, spark) as running:
        pipeline.run(*(LARGE.format(t=name) for name in names))
        for name, texts in names.items():
            pipeline.run("BEGIN", *(text.format(t=name) for text in texts), "SELECT cdc.shapes_now()", "COMMIT")
        running.wait_for("public.made_again is copied again: 1 row copied")
    catch_up(pipeline, spark)
    after = ids(pipeline)
    assert {name for name in before if before[name] == after[name]} == set(kept)
    assert not differing(pipeline, spark)
    # another file and the same rows, and somebody has looked since
    before = after
    pipeline.run("VACUUM FULL came")
    catch_up(pipeline, spark)
    pipeline.run("SELECT cdc.shapes_now()")
    catch_up(pipeline, spark)
    assert ids(pipeline) == before


def test_catalog_is_polled_without_event_triggers(
    role: str, make_pipeline: MakePipeline, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {name: CHANGES[name] for name in ("came", "went")}
    pipeline = make_tables(make_pipeline, names)
    pipeline.run(*(f"ALTER TABLE {name} OWNER TO {role}" for name in names))
    pipeline.run(f"GRANT CREATE ON DATABASE {pipeline.settings.source.dbname} TO {role}")
    pipeline.configure("user: postgres", f"user: {role}")
    bootstrap(pipeline, spark)
    assert "no event triggers (permission denied to create event trigger" in capsys.readouterr().err
    before = ids(pipeline)
    alter_tables(pipeline, names)
    catch_up(pipeline, spark)
    assert not set(before.values()) & set(ids(pipeline).values())
    assert differing(pipeline, spark) == {}
    # a table that the role may not read any more is told, and keeps nobody from looking at the other
    pipeline.run("ALTER TABLE went OWNER TO postgres")
    assert [line for line in problems(pipeline) if "may not read public.went → GRANT SELECT" in line]
    report = verify(pipeline, spark)
    assert list(map(str, report.incomparable)) == ["public.went"]
    assert not report.has_differences


def test_capture_fails_at_rows_from_before_a_type_change(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    names = {
        name: CHANGES[name] for name in ("came", "went_and_came", "other_type", "made_again", "other_key", "by_case")
    }
    pipeline = make_tables(make_pipeline, names)
    bootstrap(pipeline, spark)
    with captureless(pipeline):
        pipeline.run(*(LARGE.format(t=name) for name in names))
        alter_tables(pipeline, names)
    catch_up(pipeline, spark)
    assert differing(pipeline, spark) == {}


def is_stopped(client: ConnectClient, connector: str) -> bool:
    status = client.status(connector)
    return status is not None and not status.tasks
