"""Schema changes where the role may make no event triggers: a migration reports them, or the catalog is polled."""

import secrets
from collections.abc import Iterable, Iterator

import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from tests.faults.source.evolution import CHANGES, LARGE, alter_tables, differing, ids, make_tables
from tests.support.cdc_inprocess import bootstrap, catch_up, following, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.parts.servers_fixture import Servers
from tests.support.waiting import until


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


def test_what_a_publication_leaves_out_is_copied_once_it_is_whole_without_event_triggers(
    role: str, make_pipeline: MakePipeline, spark: SparkSession
) -> None:
    names = {name: CHANGES[name] for name in ("came", "went")}
    pipeline = make_tables(make_pipeline, names)
    give_tables_to(pipeline, role, names)
    bootstrap(pipeline, spark)
    before, name = ids(pipeline), pipeline.settings.source.publication
    with following(pipeline, spark) as running:
        pipeline.run(f"ALTER PUBLICATION {name} SET (publish = 'insert, update')", "DELETE FROM came WHERE id = 1")
        running.wait_for("public.came is followed no further")
        # a copy that is made now would go on without deletions
        running.wait_for(f"not copied again yet: publication {name} leaves changes out → ALTER PUBLICATION")
        pipeline.run(f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')")
        running.wait_for("public.came is copied again")
        running.wait_for("public.went is copied again")
    catch_up(pipeline, spark)
    assert not set(before.values()) & set(ids(pipeline).values())
    assert differing(pipeline, spark) == {}
    assert not problems(pipeline)
