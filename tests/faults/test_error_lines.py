"""Every error is one clear line with an exit code: no traceback, and nothing half done."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from psycopg import sql

from cdc.__main__ import main
from cdc.connect.source.access.connection import open_connection
from cdc.connect.source.registration import read_registration
from cdc.log.clients.topics import Admin, Topic
from tests.support.cdc_subprocess import started
from tests.support.parts.pipelines import MakePipeline, Pipeline, expect_no_kafka
from tests.support.parts.ports import free_port

TABLE = "CREATE TABLE things (id int PRIMARY KEY, name text)"
THINGS = "public.things"


@dataclass(frozen=True)
class Ended:
    code: int
    lines: list[str]

    @property
    def line(self) -> str:
        """The only one."""
        assert len(self.lines) == 1, self.lines
        assert self.lines[0].startswith("error: ")
        return self.lines[0]


@pytest.fixture
def pipeline(make_pipeline: MakePipeline) -> Pipeline:
    return make_pipeline(TABLE, tables=(THINGS,))


RunBootstrap = Callable[[], Ended]


@pytest.fixture
def run_bootstrap(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunBootstrap:
    """Runs `cdc bootstrap`, which has to end with errors."""

    def run() -> Ended:
        for name, value in pipeline.environ.items():
            monkeypatch.setenv(name, value)
        code = main(["--config", str(pipeline.config), "bootstrap"])
        return Ended(code, capsys.readouterr().err.splitlines())

    return run


def nothing_was_made(pipeline: Pipeline) -> bool:
    settings = pipeline.settings
    slots = pipeline.connection.execute(
        "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s", (settings.source.slot,)
    ).fetchone()
    with open_connection(settings.source) as connection:
        return slots == (0,) and read_registration(connection, settings.source, settings.pipeline.name) is None


def test_wrong_port_of_the_source(pipeline: Pipeline, run_bootstrap: RunBootstrap) -> None:
    port = pipeline.settings.source.port
    pipeline.configure(f"port: {port}", f"port: {free_port()}")
    ended = run_bootstrap()
    assert ended.code == 4
    assert "does not answer" in ended.line
    assert "source.port" in ended.line


def test_wrong_password(pipeline: Pipeline, run_bootstrap: RunBootstrap) -> None:
    pipeline.environ["CDC_TEST_PASSWORD"] = "not it"
    ended = run_bootstrap()
    assert ended.code == 3
    assert "refuses the password of 'postgres'" in ended.line
    assert "not it" not in ended.line


def test_a_database_that_is_not_there(pipeline: Pipeline, run_bootstrap: RunBootstrap) -> None:
    pipeline.configure(f"dbname: {pipeline.settings.source.dbname}", "dbname: nowhere")
    ended = run_bootstrap()
    assert ended.code == 3
    assert 'database "nowhere" does not exist' in ended.line
    pipeline.configure("dbname: nowhere", f"dbname: {pipeline.settings.pipeline.name}")


def test_a_table_that_is_not_there(pipeline: Pipeline, run_bootstrap: RunBootstrap) -> None:
    pipeline.configure("- public.things", "- public.thongs")
    ended = run_bootstrap()
    assert ended.code == 3
    assert "no table public.thongs" in ended.line
    assert nothing_was_made(pipeline)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("ALTER TABLE things DROP CONSTRAINT things_pkey", "has no primary key"),
        ("ALTER TABLE things SET UNLOGGED", "is not logged"),
        ("ALTER TABLE things REPLICA IDENTITY NOTHING", "has replica identity NOTHING"),
        (
            'ALTER TABLE things ADD "ID" int GENERATED ALWAYS AS (1) STORED',
            "columns 'id' and 'ID' of public.things differ by case only",
        ),
    ],
    ids=["no key", "unlogged", "no replica identity", "columns that differ by case"],
)
def test_a_table_that_cannot_be_followed(
    pipeline: Pipeline,
    run_bootstrap: RunBootstrap,
    statement: str,
    says: str,
) -> None:
    pipeline.run(statement)
    ended = run_bootstrap()
    assert ended.code == 3
    assert says in ended.line
    assert nothing_was_made(pipeline)


def test_tables_that_would_share_a_topic(pipeline: Pipeline, run_bootstrap: RunBootstrap) -> None:
    pipeline.run("CREATE SCHEMA a", "CREATE SCHEMA a_b")
    pipeline.run("CREATE TABLE a.b_c (id int PRIMARY KEY)", "CREATE TABLE a_b.c (id int PRIMARY KEY)")
    pipeline.configure("- public.things", "- a.b_c\n    - a_b.c")
    ended = run_bootstrap()
    assert ended.code == 3
    error, *offer = ended.lines
    assert error.startswith("error: a.b_c and a_b.c would share the topic")
    assert offer == ["these would be accepted:", "source:", "  tables:", "    - a.b_c"]
    assert nothing_was_made(pipeline)


def test_every_reason_against_tables_is_reported_at_once(pipeline: Pipeline, run_bootstrap: RunBootstrap) -> None:
    pipeline.run(
        "CREATE TABLE keyless (spans int4range, tags text[])",
        'CREATE TABLE documents (id int PRIMARY KEY, _source text, "two words" text)',
        "CREATE TABLE whole (line text)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        'CREATE TABLE "true" (id int PRIMARY KEY)',
        "CREATE SCHEMA odd",
        "CREATE SCHEMA odd_odd",
        "CREATE TABLE odd.odd_things (id interval PRIMARY KEY)",
        "CREATE TABLE odd_odd.things (id numeric PRIMARY KEY)",
        'CREATE TABLE "odd things" (id int PRIMARY KEY)',
    )
    named = (
        "public.gone",
        "public.keyless",
        "public.documents",
        "odd.odd_things",
        "odd_odd.things",
        "public.true",
        "public.whole",
    )
    names = ["- public.things", *named, '"public.odd things"']
    pipeline.configure("- public.things", "\n    - ".join(names))
    ended = run_bootstrap()
    assert ended.code == 3
    assert ended.lines == [
        "error: no table public.gone in the source → correct source.tables",
        "error: public.keyless has no primary key, and no other replica identity → add a primary key, or ALTER TABLE …"
        " REPLICA IDENTITY FULL",
        "error: public.documents: OpenSearch keeps the name _source for itself → rename the column, or name the table"
        " under leave_out of this follower",
        f"error: odd.odd_things and odd_odd.things would share the topic {pipeline.settings.log.prefix}"
        ".odd_odd.things → leave one out, or rename it",
        *(
            f"error: public.whole has no primary key, and a {what} needs one → give it one, name one under source.keys,"
            " or the table under leave_out of this follower"
            for what in ("search index", "compacted topic")
        ),
        "these would be accepted:",
        "source:",
        "  tables:",
        "    - public.things",
        "    - public.documents",
        "    - odd.odd_things",
        "    - public.true",
        "    - public.whole",
        '    - "public.odd things"',
        "followers:",
        "  search:",
        "    leave_out:",
        "      - public.documents",
        "      - public.whole",
        "  latest:",
        "    leave_out:",
        "      - public.whole",
    ]
    assert nothing_was_made(pipeline)


def weak_role(pipeline: Pipeline, attributes: str) -> None:
    name = pipeline.settings.pipeline.name
    role, password = sql.Identifier(f"weak_{name}"), sql.Literal(pipeline.environ["CDC_TEST_PASSWORD"])
    create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} ").format(role, password)
    pipeline.connection.execute(create + sql.SQL(attributes))
    pipeline.configure("user: postgres", f"user: weak_{name}")


def drop_weak_role(pipeline: Pipeline) -> None:
    name = pipeline.settings.source.user
    pipeline.configure(f"user: {name}", "user: postgres")
    pipeline.connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.mark.parametrize(
    ("attributes", "says"),
    [("", r"has no right to replicate → ALTER ROLE"), ("REPLICATION", r"may not read public.things → GRANT SELECT")],
    ids=["to replicate", "to read"],
)
def test_a_role_without_a_right(
    pipeline: Pipeline,
    run_bootstrap: RunBootstrap,
    attributes: str,
    says: str,
) -> None:
    weak_role(pipeline, attributes)
    try:
        ended = run_bootstrap()
        assert ended.code == 3
        # with what else it may not do
        assert any(re.search(says, line) for line in ended.lines)
    finally:
        drop_weak_role(pipeline)
    assert nothing_was_made(pipeline)


def test_a_slot_that_is_not_ours(pipeline: Pipeline, run_bootstrap: RunBootstrap) -> None:
    slot = pipeline.settings.source.slot
    pipeline.connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    ended = run_bootstrap()
    assert ended.code == 3
    assert f"slot {slot} is there already and is not this pipeline's" in ended.line


def test_a_topic_that_is_not_ours(pipeline: Pipeline, run_bootstrap: RunBootstrap) -> None:
    log = pipeline.settings.log
    topic = f"{log.prefix}.public.things"
    with Admin(log) as admin:
        admin.create([Topic(topic, 1)])
        try:
            ended = run_bootstrap()
        finally:
            admin.delete([topic])
    assert ended.code == 3
    assert f"topic {topic} is there already and is not this pipeline's" in ended.line
    assert nothing_was_made(pipeline)


def test_kafka_does_not_answer(
    pipeline: Pipeline, run_bootstrap: RunBootstrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_no_kafka(monkeypatch)
    pipeline.configure(pipeline.settings.log.bootstrap, f"127.0.0.1:{free_port()}")
    ended = run_bootstrap()
    assert ended.code == 4
    assert "Kafka 127.0.0.1" in ended.line
    assert nothing_was_made(pipeline)


def test_connect_does_not_answer(pipeline: Pipeline, run_bootstrap: RunBootstrap) -> None:
    url, nobody = pipeline.servers.values.connect_url, f"http://127.0.0.1:{free_port()}"
    pipeline.configure(url, nobody)
    ended = run_bootstrap()
    pipeline.configure(nobody, url)
    assert ended.code == 4
    assert "Kafka Connect" in ended.line
    assert nothing_was_made(pipeline)


def test_pipeline_prepared_with_other_names(pipeline: Pipeline, run_bootstrap: RunBootstrap) -> None:
    """Its partition counts and its names cannot change once capture has begun."""
    with started(pipeline, "bootstrap") as running:
        running.wait_for("started")
    for old, new, says in (
        ("\n  partitions: 3", "\n  partitions: 4", "has 3 partitions, not 4 → set log.partitions back"),
        ("\nsource:\n", "\nsource:\n  slot: another\n", "was prepared with source.slot"),
    ):
        pipeline.configure(old, new)
        ended = run_bootstrap()
        pipeline.configure(new, old)
        assert ended.code == 3
        assert says in ended.line
