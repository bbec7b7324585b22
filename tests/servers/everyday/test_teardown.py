"""`cdc teardown` on the real parts, of which one does not answer at first: the source is as it was before."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.core.errors import IncompleteError, RefusedError
from cdc.log.clients.topics import Admin
from cdc.run.teardown.data_belongings import list_state
from cdc.run.teardown.teardown import find_belongings
from cdc.sinks.search.settings import SearchSettings
from tests.support.cdc_inprocess import bootstrap
from tests.support.parts.pipelines import MakePipeline, Pipeline, expect_no_kafka

CATALOG = """
SELECT 'relation', oid::regclass::text FROM pg_class WHERE relnamespace::regnamespace::text !~ '^pg_(toast|temp)'
UNION ALL SELECT 'function', oid::regprocedure::text FROM pg_proc
UNION ALL SELECT 'schema', nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)'
UNION ALL SELECT 'event trigger', evtname FROM pg_event_trigger
UNION ALL SELECT 'publication', pubname FROM pg_publication
UNION ALL SELECT 'slot', slot_name FROM pg_replication_slots WHERE database = current_database()
UNION ALL SELECT 'identity', relname || relreplident::text FROM pg_class"""


def read_catalog(pipeline: Pipeline) -> set[tuple[object, ...]]:
    return set(pipeline.connection.execute(CATALOG).fetchall())


def tear_down(pipeline: Pipeline, *options: str) -> int:
    return main(["--config", str(pipeline.config), "teardown", "--yes", *options])


def list_left(pipeline: Pipeline) -> tuple[list[str], list[str]]:
    """The topics and indexes of the pipeline that are there."""
    s = pipeline.settings
    with Admin(s.log) as admin:
        topics = admin.list_names((f"{s.log.prefix}.", f"__debezium-heartbeat.{s.log.prefix}"))
    search = next(each for each in s.followers.values() if isinstance(each, SearchSettings))
    found = httpx.get(f"{search.url}/_cat/indices/{search.prefix}-*?format=json&expand_wildcards=all").json()
    return topics, [each["index"] for each in found]


@pytest.fixture
def pipeline(make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    made = make_pipeline("CREATE TABLE things (id int PRIMARY KEY)", tables=("public.things",))
    made.set_environ(monkeypatch)
    return made


def test_a_source_is_as_it_was(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_catalog(pipeline)
    bootstrap(pipeline, spark)
    made = read_catalog(pipeline) - before
    assert {kind for kind, _ in made} >= {"schema", "function", "event trigger", "publication", "slot"}
    check_what_others_use_stays(pipeline)
    with pipeline.opened().leases.hold("search"):
        assert tear_down(pipeline) == RefusedError.exit_code
    # without a terminal nobody can be asked
    assert main(["--config", str(pipeline.config), "teardown"]) == RefusedError.exit_code
    assert read_catalog(pipeline) - before == made
    check_without_parts(pipeline, monkeypatch, capsys)
    assert tear_down(pipeline) == 0
    assert read_catalog(pipeline) == before
    check_data(pipeline, capsys)


def check_without_parts(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What can be removed is removed, what cannot is named, and the same command again goes on from there."""
    s = pipeline.settings
    in_source = f"slot {s.source.slot}, publication {s.source.publication} and schema {s.source.heartbeat_schema}"
    monkeypatch.setattr("cdc.connect.source.slots.slot.DROP_SECONDS", 0.5)
    said = tear_down_without(pipeline, monkeypatch, capsys, f":{urlsplit(s.connect.url).port}", ":1")
    assert f"not known: connector {s.connect.connector}: Kafka Connect " in said
    assert f"error: slot {s.source.slot} is left: slot {s.source.slot} cannot be dropped" in said
    assert f"removed publication {s.source.publication}" in said
    said = tear_down_without(pipeline, monkeypatch, capsys, f"port: {s.source.port}", "port: 1")
    assert f"removed connector {s.connect.connector}" in said
    assert f"not known: {in_source}: Postgres " in said
    said = tear_down_without(pipeline, monkeypatch, capsys, s.log.bootstrap, "127.0.0.1:1")
    assert f"removed slot {s.source.slot}" in said
    assert f"not known: topics {s.log.prefix}.*: " in said
    assert "error: schema cdc is kept until the rest is gone → run `cdc teardown` again" in said


def tear_down_without(
    pipeline: Pipeline,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    address: str,
    nowhere: str,
) -> str:
    """What is said while the part at an address is not there."""
    as_it_was = pipeline.config.read_text()
    pipeline.configure(address, nowhere)
    with monkeypatch.context() as patched:
        expect_no_kafka(patched)
        assert tear_down(pipeline) == IncompleteError.exit_code
    pipeline.config.write_text(as_it_was)
    return capsys.readouterr().err


def check_data(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    """What followers hold stays, until it is to go, too."""
    prefix, lake = pipeline.settings.log.prefix, Path(pipeline.settings.delta[1].path)
    topics, indexes = list_left(pipeline)
    assert topics == [f"{prefix}.latest-position", f"{prefix}.latest.public.things"]
    assert indexes
    (lake / "notes").mkdir()
    (lake / "notes" / "of a user").write_text("stays")
    capsys.readouterr()
    assert tear_down(pipeline, "--data", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["left"] == []
    assert answer["kept"] == [f"in {lake}: 1 file not of ours, such as notes/of a user"]
    assert list_left(pipeline) == ([], [])
    assert [path.name for path in lake.iterdir()] == ["notes"]
    assert not list_state(pipeline.opened())
    assert not list(Path(pipeline.settings.pipeline.state).rglob(f"{pipeline.opened().name}*"))
    assert tear_down(pipeline, "--data") == 0
    assert f"nothing of pipeline {pipeline.opened().name} is there" in capsys.readouterr().err


def check_what_others_use_stays(pipeline: Pipeline) -> None:
    """Another pipeline of the same source keeps the schema and its triggers."""
    pipeline.run("INSERT INTO cdc.pipeline VALUES ('other', 'its_slot', 'its_publication', 'other')")
    found = find_belongings(pipeline.opened(), with_data=False)
    assert not [each for each in found.found if each.kind == "event trigger"]
    assert [each.kind for each in found.last] == ["registration"]
    assert "schema cdc with its event triggers: other uses it, too" in found.kept
    pipeline.run("DELETE FROM cdc.pipeline WHERE pipeline = 'other'")
