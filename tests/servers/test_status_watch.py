"""The status document beside real parts: before there is anything, while all is followed, and when a part stops."""

from collections.abc import Callable

import psycopg
from pyspark.sql import SparkSession

from cdc.cli.verbs.status import describe_verdict
from cdc.run.status.document import Document
from cdc.run.status.things import Level, State
from cdc.run.status.watch import StatusWatch
from tests.support.cdc_inprocess import bootstrap, following, status_of, verify
from tests.support.cdc_subprocess import cdc as run_cdc
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

MADE = (
    "CREATE TABLE things (id int PRIMARY KEY, note text)",
    "INSERT INTO things SELECT n, 'thing ' || n FROM generate_series(1, 20) n",
)
THINGS = "public.things"


class Shown:
    """What a watch shows, until it shows what somebody waits for."""

    def __init__(self, watch: StatusWatch) -> None:
        self._watch = watch

    def wait_for(self, condition: Callable[[Document], bool], what: str) -> Document:
        def holds() -> bool:
            found = self._watch.document()
            return found is not None and condition(found)

        until(holds, what)
        found = self._watch.document()
        assert found is not None
        return found


def states(found: Document) -> list[State]:
    return [part.state for part in found.parts.values()]


def test_one_document_from_the_first_look_to_a_paused_capture(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = make_pipeline(*MADE, tables=(THINGS,))
    new = status_of(pipeline)
    assert (new.verdict.level, new.verdict.title) == (Level.NEW, "Nothing is captured yet")
    assert states(new) == [State.OK, State.NEW, State.NEW, State.NEW]
    [problem] = new.problems.values()
    assert str(problem).startswith("nothing is captured yet → `cdc bootstrap`")
    assert [step.command for step in new.steps if not step.done] == ["cdc doctor", "cdc bootstrap", "cdc follow"]
    bootstrap(pipeline, spark)
    with following(pipeline, spark), StatusWatch(pipeline.opened(), every_seconds=0.5) as watch:
        shown = Shown(watch)
        pipeline.run("UPDATE things SET note = 'new' WHERE id < 5")
        check_healthy(shown.wait_for(is_healthy, "all is current, and measured"))
        check_held_slot(pipeline, shown)
        check_paused(pipeline, shown)
        assert verify(pipeline, spark).is_equal
        verified = shown.wait_for(lambda found: len(found.verifications) == 3, "the results are kept")
        assert {result.verdict for result in verified.verifications.values()} == {"equal"}
        assert verified.tables[THINGS].verdict == "equal"
        told = [event.text for event in reversed(verified.events)]
        assert [text for text in told if text.startswith("capture")] == ["capture: paused", "capture: running"]
        assert "lake verified: equal" in told


def is_healthy(found: Document) -> bool:
    measured = all(follower.p50_seconds is not None for follower in found.followers.values())
    return measured and found.verdict.level is Level.OK and found.tables[THINGS].rows_in.get("search") == 20


def check_healthy(found: Document) -> None:
    assert found.verdict.title == "Everything is current"
    assert "A commit is seen in lake after" in found.verdict.detail
    assert states(found) == [State.OK] * 4
    assert {follower.state for follower in found.followers.values()} == {State.OK}
    assert [follower.behind_seconds for follower in found.followers.values()] == [0, 0, 0]
    table = found.tables[THINGS]
    assert (table.state, table.rows, table.rows_in["lake"], table.holders) == (
        State.FOLLOWED,
        20,
        20,
        ["lake", "search", "latest"],
    )
    assert table.not_counted == ["latest"]
    assert table.changed_at is not None
    assert found.slot is not None
    assert (found.slot.state, found.slot.active, found.slot.full_in_seconds) == (State.OK, True, None)
    assert all(part.checked_at for part in found.parts.values())
    assert found.series is not None
    assert found.lake_writes is not None


def check_held_slot(pipeline: Pipeline, shown: Shown) -> None:
    """Who keeps the slot back is named, once it does so for a minute; here at once, by an older clock."""
    with psycopg.connect(pipeline.connection.info.dsn, password=pipeline.connection.info.password) as open_for_long:
        open_for_long.execute("UPDATE things SET note = 'held' WHERE id = 20")
        pid = open_for_long.info.backend_pid
        found = shown.wait_for(
            lambda found: any(f"pid {pid}" in fact.value for fact in found.parts["source"].facts),
            "the session is named",
        )
        assert "oldest open transaction" in [fact.name for fact in found.parts["source"].facts]
        open_for_long.rollback()


def check_paused(pipeline: Pipeline, shown: Shown) -> None:
    """A capture that somebody has paused is the cause; it runs again, and all is well."""
    connector = pipeline.settings.connect.connector
    with pipeline.opened().open_connect() as client:
        client._call("PUT", f"/connectors/{connector}/pause")
        paused = shown.wait_for(lambda found: found.parts["capture"].state is State.PAUSED, "it is paused")
        assert paused.parts["capture"].is_cause
        assert paused.verdict.level is Level.NOW
        assert paused.verdict.title == "The capture is paused"
        [problem] = paused.problems.values()
        assert (problem.command, problem.language) == ("cdc resume capture", "sh")
        assert describe_verdict(paused).startswith("NOW: The capture is paused")
        checked = run_cdc(pipeline, "status", "--check")
        assert (checked.returncode, checked.stdout[:4]) == (2, "NOW:")
        client._call("PUT", f"/connectors/{connector}/resume")
    shown.wait_for(lambda found: found.verdict.level is Level.OK, "all is well again")
    assert run_cdc(pipeline, "status", "--check").returncode == 0
