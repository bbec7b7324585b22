"""The everyday verbs on the real parts, of one pipeline: each test leaves it followed by all."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.config.settings import CAPTURE
from cdc.connect.capture.connector_state import look_up
from cdc.core.errors import ConfigurationError, PausedError, PreconditionError, RefusedError, UnreachableError
from cdc.core.table import TableName
from cdc.log.clients.topics import Admin, Topic
from cdc.log.names import change_topic
from cdc.progress import LineProgress
from cdc.run.control import control
from cdc.run.control.question import ControlVerb
from cdc.run.copy.resync import resync_tables
from cdc.run.plan.plan import plan_bootstrap
from cdc.run.read.tokens import take_token, wait_for_token
from tests.support.cdc_inprocess import bootstrap, catch_up, following, lend_bootstrapped, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

THINGS = TableName("public", "things")
MADE = (
    "CREATE TABLE things (id int PRIMARY KEY, note text, twice int GENERATED ALWAYS AS (id * 2) STORED)",
    "INSERT INTO things SELECT n, 'thing ' || n FROM generate_series(1, 5) n",
)
PAUSE, RESUME, RESTART = ControlVerb.PAUSE, ControlVerb.RESUME, ControlVerb.RESTART


def make(make_shared_pipeline: MakePipeline) -> Pipeline:
    made = make_shared_pipeline(*MADE, tables=("public.things",))
    made.configure("source:\n", "source:\n  heartbeat_seconds: 1\n")
    return made


@pytest.fixture
def pipeline(
    left: list[Pipeline],
    make_shared_pipeline: MakePipeline,
    quicker: None,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Pipeline]:
    for lent in lend_bootstrapped(left, spark, lambda: make(make_shared_pipeline)):
        lent.set_environ(monkeypatch)
        yield lent


def plan(pipeline: Pipeline) -> list[str]:
    return [str(step) for step in plan_bootstrap(pipeline.opened()).steps]


def test_a_plan_of_a_first_bootstrap_makes_nothing(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> None:
    pipeline = make(make_shared_pipeline)
    s = pipeline.settings
    planned = plan(pipeline)
    assert planned == plan(pipeline)
    [unsent] = plan_bootstrap(pipeline.opened()).notices
    assert unsent.startswith("public.things: followers do not have twice")
    [topics, others] = (
        [step for step in planned if step.startswith("+ topic ") is is_topic] for is_topic in (True, False)
    )
    assert f"+ topic {s.log.prefix}.transaction: 1 partition" in topics
    assert others == [
        "+ schema cdc: our tables in the source",
        f"+ registration {pipeline.opened().name}",
        f"+ publication {s.source.publication}: public.things, cdc.heartbeat, cdc.shapes",
        "+ event trigger cdc_note_shapes",
        "+ event trigger cdc_note_rewrite",
        f"+ slot {s.source.slot}",
        f"+ connector {s.connect.connector}",
        "+ table public.things: copied, not analysed yet",
        "+ follower search: filled with public.things",
        "+ follower latest: filled with public.things",
    ]
    assert pipeline.connection.execute("SELECT to_regnamespace('cdc')").fetchone() == (None,)
    bootstrap(pipeline, spark)
    # what is not sent is said once
    again = plan_bootstrap(pipeline.opened())
    assert (again.steps, again.notices) == ([], [])
    left.append(pipeline)


def test_a_plan_names_what_a_bootstrap_then_does(
    pipeline: Pipeline, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    s, topic = pipeline.settings, change_topic(pipeline.settings.log.prefix, THINGS)
    pipeline.run(
        "CREATE TABLE others (id int PRIMARY KEY)",
        "DROP EVENT TRIGGER cdc_note_rewrite",
    )
    pipeline.configure("- public.things", "- public.things\n    - public.others")
    with Admin(s.log) as admin:
        admin.configure([Topic(topic, 1, config={"retention.ms": "60000"})])
    assert main(["--config", str(pipeline.config), "plan", "--again", "public.things", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)["steps"]
    assert [f"{step['sign']} {step['kind']} {step['name']}: {step['detail']}" for step in planned] == [
        f"+ topic {s.log.prefix}.public.others: 3 partitions",
        f"~ topic {topic}: retention.ms=1209600000",
        f"~ publication {s.source.publication}: with public.others",
        "+ event trigger cdc_note_rewrite: None",
        f"~ connector {s.connect.connector}: table.include.list with public.others; it starts again",
        "~ table public.things: copied again, not analysed yet; readers get it by `cdc follow`",
        "+ table public.others: copied, not analysed yet; readers get it by `cdc follow`",
    ]
    bootstrap(pipeline, spark)
    # whoever gives it the tables, and in whatever order: another one would restart it
    with pipeline.opened().open_connect() as client:
        listed = (client.config(s.connect.connector) or {})["table.include.list"]
    assert listed.index("others") < listed.index("things")
    assert main(["--config", str(pipeline.config), "plan"]) == 0
    assert capsys.readouterr().err.endswith("everything is as cdc.yaml says: nothing to do\n")
    pipeline.configure("- public.things\n    - public.others", "- public.things")
    assert plan(pipeline) == [
        f"~ publication {s.source.publication}: without public.others",
        f"~ connector {s.connect.connector}: table.include.list; it starts again",
        "- table public.others: not followed any more; followers keep its rows",
    ]
    bootstrap(pipeline, spark)
    assert plan(pipeline) == []
    catch_up(pipeline, spark)


def test_the_file_is_checked_against_the_source(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    as_it_was, source = pipeline.config.read_text(), pipeline.settings.source
    at = ["--config", str(pipeline.config)]
    assert main([*at, "tables", "add", "public.nosuch"]) == ConfigurationError.exit_code
    assert "the source has no table public.nosuch" in capsys.readouterr().err
    assert pipeline.config.read_text() == as_it_was
    checked = [*at, "config", "check"]
    assert main(checked) == 0
    pipeline.run("CREATE TABLE bare (n int)")
    try:
        for was, wrong, code, told in (
            (f"dbname: {source.dbname}", "dbname: nosuch", PreconditionError.exit_code, '"nosuch" does not exist'),
            ("- public.things", "- public.bare", PreconditionError.exit_code, "public.bare"),
            (f"port: {source.port}", "port: 1", 0, "warning: the source was not asked: its tables were not checked: "),
        ):
            pipeline.configure(was, wrong)
            assert main(checked) == code, wrong
            assert told in capsys.readouterr().err
            pipeline.config.write_text(as_it_was)
    finally:
        pipeline.config.write_text(as_it_was)
        pipeline.run("DROP TABLE bare")


def test_first_views_are_planned_and_not_begun_beside_a_follow(pipeline: Pipeline, spark: SparkSession) -> None:
    as_it_was, views = (
        pipeline.config.read_text(),
        "views:\n  shop.notes:\n    key: [id]\n    sql: SELECT * FROM things\n",
    )
    pipeline.configure("followers:\n", f"{views}followers:\n")
    pipeline.configure("    kind: search\n", "    kind: search\n    tables: [public.things, shop.notes]\n")
    try:
        filled, fed = plan(pipeline)
        assert filled == "+ view shop.notes: filled"
        # with all, if it is behind the newest cut
        assert fed.startswith("+ follower search: filled with ")
        assert fed.endswith("shop.notes")
        with pipeline.opened().leases.hold("search"), pytest.raises(RefusedError, match="search is already being"):
            bootstrap(pipeline, spark)
        assert pipeline.opened().views.cuts.last() is None
    finally:
        pipeline.config.write_text(as_it_was)


def act(pipeline: Pipeline, verb: ControlVerb, on: str) -> str:
    return control.act(pipeline.opened(), verb, on, "a test")


def check_told(pipeline: Pipeline, what: str, on: str) -> None:
    [problem] = problems(pipeline)
    assert problem.startswith(what)
    assert ", by a test" in problem
    assert problem.endswith(f" → `cdc resume {on}` lets it go on")


def test_a_pause_outlasts_follow_and_is_told(
    pipeline: Pipeline, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with following(pipeline, spark) as running:
        running.wait_for("following:")
        assert act(pipeline, PAUSE, "search") == "search is paused"
        running.wait_for("follower search is paused since ")
        pipeline.run("INSERT INTO things VALUES (6, 'while it was paused')")
        opened, token = pipeline.opened(), take_token(pipeline.connection)
        assert wait_for_token(opened, "lake", token, 60)
        with pytest.raises(UnreachableError, match=r"follower search is paused since .* → `cdc resume search` lets it"):
            wait_for_token(opened, "search", token, 0.1)
    check_told(pipeline, "follower search is paused since ", "search")
    # who would wait for ever is told at once
    with pytest.raises(PausedError, match="search is paused"):
        catch_up(pipeline, spark)
    with following(pipeline, spark) as running:
        # the next follow keeps it
        running.wait_for("follower search is paused since ")
        assert main(["--config", str(pipeline.config), "resume", "search", "--json"]) == 0
        running.wait_for("search: is resumed")
        assert verify(pipeline, spark).is_equal
        assert act(pipeline, RESTART, "search") == "search starts anew"
        running.wait_for("search: starts again")
        pipeline.run("INSERT INTO things VALUES (7, 'behind the start')")
        assert verify(pipeline, spark).is_equal
    [answer] = json.loads(capsys.readouterr().out)
    assert (answer["done"], answer["command"], answer["refused"]) == ("search goes on", "cdc resume search", None)
    assert not problems(pipeline)


def test_a_paused_lake_feeds_nobody(pipeline: Pipeline, spark: SparkSession) -> None:
    with following(pipeline, spark) as running:
        running.wait_for("following:")
        assert act(pipeline, PAUSE, "lake") == "lake is paused"
        before = pipeline.opened().lake_follower.position()
        pipeline.run("UPDATE things SET note = 'later' WHERE id < 3")
        with pytest.raises(UnreachableError, match="follower lake is paused since "):
            wait_for_token(pipeline.opened(), "search", take_token(pipeline.connection), 0.5)
        assert pipeline.opened().lake_follower.position() == before
        assert act(pipeline, RESUME, "lake") == "lake goes on"
        assert verify(pipeline, spark).is_equal


def test_requests_without_a_follow(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PreconditionError, match="nobody follows search on this machine → run `cdc follow`"):
        act(pipeline, RESTART, "search")
    with pytest.raises(PreconditionError, match="search is not paused"):
        act(pipeline, RESUME, "search")
    with pytest.raises(ConfigurationError, match="there is no nothing to pause or resume → it has capture, lake"):
        act(pipeline, PAUSE, "nothing")
    assert "until `cdc resume search`" in act(pipeline, PAUSE, "search")
    with pytest.raises(PausedError):
        act(pipeline, RESTART, "search")
    assert "run `cdc follow`" in act(pipeline, RESUME, "search")
    # a dry run says it, and does nothing
    assert main(["--config", str(pipeline.config), "pause", "lake", "search", "--dry-run"]) == 0
    said = capsys.readouterr().err
    assert "it costs: the log keeps changes for " in said
    assert "it costs: the lake keeps old files until it goes on" in said
    assert not problems(pipeline)


def test_a_paused_capture(pipeline: Pipeline, spark: SparkSession) -> None:
    opened, name = pipeline.opened(), pipeline.settings.connect.connector
    question = control.ask(opened, PAUSE, CAPTURE)
    # with a limit, when it is reached; without one, how fast the slot grows
    assert any(each in question.costs for each in (" an hour: max_slot_wal_keep_size", "max_slot_wal_keep_size), in "))
    assert question.refused is None
    assert act(pipeline, PAUSE, CAPTURE) == f"connector {name} is PAUSED, its task is PAUSED"
    check_told(pipeline, "the capture is paused since ", CAPTURE)
    # a copy beside the stream would start the connector
    opened.lake_follower.tables.stop({THINGS: "a test"}, copy=[THINGS])
    tried = resync_tables(pipeline.opened(spark), print, LineProgress(print), [THINGS])
    assert isinstance(tried.failure, PausedError)
    with pytest.raises(PreconditionError, match=f"connector {name} is PAUSED → `cdc resume capture`"):
        act(pipeline, RESTART, CAPTURE)
    assert act(pipeline, RESUME, CAPTURE) == f"connector {name} is RUNNING, its task is RUNNING"
    with pytest.raises(PreconditionError, match=f"connector {name} is not paused"):
        act(pipeline, RESUME, CAPTURE)
    assert act(pipeline, RESTART, CAPTURE) == f"connector {name} is RUNNING, its task is RUNNING"
    bootstrap(pipeline, spark)
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    # a bootstrap ends the pause, too
    act(pipeline, PAUSE, CAPTURE)
    bootstrap(pipeline, spark, "public.things")
    assert not pipeline.opened().requests.is_paused(CAPTURE)
    catch_up(pipeline, spark)
    with opened.open_connect() as client:
        until(lambda: look_up(client, name).is_running, "it runs")
    assert not problems(pipeline)


def trace(pipeline: Pipeline, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, object]]:
    """What each place has of a row of things."""
    capsys.readouterr()
    assert main(["--config", str(pipeline.config), "trace", "public.things", *words, "--json"]) == 0
    return {each["place"]: each for each in json.loads(capsys.readouterr().out)["places"]}


def test_a_row_is_traced_through_all_places(
    pipeline: Pipeline, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.run("INSERT INTO things VALUES (100, 'a secret of a user')")
    catch_up(pipeline, spark)
    found = trace(pipeline, capsys, "100")
    everywhere = {"source": "has it"} | dict.fromkeys(("log", "lake", "search", "latest"), "as in the source")
    assert {place: each["state"] for place, each in found.items()} == everywhere
    assert "inserted by " in str(found["log"]["note"])
    assert found["log"]["committed_at"]
    assert "secret" not in str(found)
    assert trace(pipeline, capsys, "100", "--values")["search"]["row"] == {"id": 100, "note": "a secret of a user"}
    act(pipeline, PAUSE, "search")
    pipeline.run("UPDATE things SET note = 'newer' WHERE id = 100")
    with following(pipeline, spark, "lake", "latest"):
        assert wait_for_token(pipeline.opened(), "latest", take_token(pipeline.connection), 60)
    found = trace(pipeline, capsys, "100")
    assert {place: each["state"] for place, each in found.items()} == everywhere | {"search": "another version"}
    act(pipeline, RESUME, "search")
    pipeline.run("DELETE FROM things WHERE id = 100")
    catch_up(pipeline, spark)
    found = trace(pipeline, capsys, "100")
    assert {each["state"] for each in found.values()} == {"no row"}
    assert "deleted by " in str(found["log"]["note"])
    # an older change than those that are read is not known, which is told
    found = trace(pipeline, capsys, "1", "--messages", "1")
    assert found["log"]["state"] == "not known"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["public.things", "x"], "that is no key of public.things: invalid input syntax for type integer: "),
        (["public.things", "1", "2"], "the key of public.things is id, not 2 values"),
        (["public.nothing", "1"], "the lake does not follow public.nothing"),
    ],
)
def test_what_cannot_be_traced(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(["--config", str(pipeline.config), "trace", *words]) == ConfigurationError.exit_code
    assert told in capsys.readouterr().err


def test_what_each_part_said_last(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    name, logs = pipeline.settings.connect.connector, Path(pipeline.settings.pipeline.state) / "logs"
    (logs / "follow.log").write_text("".join(f"line {n}\n" for n in range(20)))
    (logs / "trouble.log").write_text("2026-01-01 view: an error\nTraceback\n  a line of it\n")
    act(pipeline, PAUSE, "search")
    capsys.readouterr()
    assert main(["--config", str(pipeline.config), "logs", "-n", "2", "--json"]) == 0
    found = {each["part"]: each for each in json.loads(capsys.readouterr().out)}
    act(pipeline, RESUME, "search")
    assert found["cdc follow"]["lines"] == ["line 18", "line 19"]
    assert found["errors of one thing"]["lines"] == ["2026-01-01 view: an error"]
    assert (found["follower lake"]["state"], found["follower search"]["state"]) == ("not followed here", "paused")
    assert (found[f"connector {name}"]["state"], found["its task 0"]["state"]) == ("RUNNING", "RUNNING")
