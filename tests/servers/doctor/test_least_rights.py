"""The role of `cdc doctor --role-sql` is enough for a capture; a doctor changes nothing."""

from collections.abc import Iterator

import pytest
from psycopg import sql

from cdc.connect.source import registration
from cdc.core.errors import PreconditionError
from cdc.log.clients.cluster import read_cluster
from cdc.run.copy.bootstrap_checks import check_bootstrap
from cdc.run.copy.capture_setup import prepare_capture
from cdc.run.doctor.check import Severity
from cdc.run.doctor.doctor import Doctor
from tests.servers.doctor.site import Site, prepare
from tests.support.parts.pipelines import MakePipeline, Pipeline

CATALOG = """
SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_namespace),
       (SELECT count(*) FROM pg_event_trigger), (SELECT count(*) FROM pg_publication),
       (SELECT count(*) FROM pg_replication_slots WHERE database = current_database())"""
OF_SOURCE = ("source", "postgres", "role", "publication", "slot", "triggers", "tables")


@pytest.fixture
def pipeline(make_pipeline: MakePipeline) -> Iterator[Pipeline]:
    """Its role is not there yet."""
    made = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", "ANALYZE", tables=("public.t",))
    role = f"least_{made.settings.pipeline.name}"
    made.configure("user: postgres", f"user: {role}")
    yield made
    if made.connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is not None:
        made.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_the_role_of_the_script_is_enough(pipeline: Pipeline) -> None:
    doctor, role = Doctor(pipeline.opened()), pipeline.settings.source.user
    found = doctor.examine()
    assert [each.check for each in found.of(Severity.ERROR)] == ["source.login"]
    # who does not get in may not be there at all
    script = "\n".join(doctor.write_fixes(found))
    for _ in range(2):
        pipeline.run(script)
    password = sql.Literal(pipeline.environ["CDC_TEST_PASSWORD"])
    pipeline.connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), password))
    site = prepare(pipeline)
    findings = [each for each in site.find_all(*OF_SOURCE) if each.severity is not Severity.NOTE]
    assert findings == []
    # what the role does not own tells of changes all the same
    pipeline.run("ALTER TABLE t ADD COLUMN more text")
    noted = pipeline.connection.execute("SELECT shape FROM cdc.shapes WHERE \"table\" = 't'").fetchone()
    assert noted is not None
    assert "more" in str(noted[0])


def test_what_an_administrator_runs_lets_a_role_begin_that_owns_no_table(pipeline: Pipeline) -> None:
    """The role of docs/START.md: a bootstrap names the way, and what is printed there is enough."""
    role, database = map(sql.Identifier, (pipeline.settings.source.user, pipeline.settings.source.dbname))
    password = sql.Literal(pipeline.environ["CDC_TEST_PASSWORD"])
    pipeline.connection.execute(sql.SQL("CREATE ROLE {} LOGIN REPLICATION PASSWORD {}").format(role, password))
    pipeline.connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, role))
    pipeline.connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(role))
    opened = pipeline.opened()
    with opened.open_source() as connection, pytest.raises(PreconditionError, match="what `cdc doctor --fix-sql` prin"):
        check_bootstrap(opened, connection, [])
    doctor = Doctor(opened)
    pipeline.run("\n".join(doctor.write_fixes(doctor.examine())))
    # no bootstrap has made the connector, and nobody has deleted it
    assert [found.check for found in Doctor(pipeline.opened()).examine().of(Severity.ERROR)] == []
    with opened.open_source() as connection:
        prepare_capture(opened, connection, check_bootstrap(opened, connection, []).tables, lambda line: None)
        assert registration.read_registration(connection, opened.settings.source, opened.name) is not None


def test_a_doctor_changes_nothing(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    prefix, folder = pipeline.settings.log.prefix, pipeline.config.parent
    before = pipeline.connection.execute(CATALOG).fetchone(), sorted(folder.rglob("*"))
    found = Doctor(pipeline.opened()).examine()
    assert found.of(Severity.ERROR) == []
    assert found.seconds < 10
    assert (pipeline.connection.execute(CATALOG).fetchone(), sorted(folder.rglob("*"))) == before
    assert read_cluster(pipeline.settings.log, lambda name: prefix in name).topics == {}
    site = Site(pipeline, pipeline.settings)
    assert not site.find("triggers.allowed")
