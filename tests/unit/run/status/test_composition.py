"""A document from facts: what was not renewed is not known, and every thing says when it was checked."""

from dataclasses import replace
from pathlib import Path

import pytest

from cdc.columns.netting.ends import to_columns
from cdc.config.file import load
from cdc.config.init import TemplateValues, template
from cdc.config.settings import PipelineSettings
from cdc.connect.capture.connector_state import ConnectorState
from cdc.connect.source.slots.oldest_transaction import OldestTransaction
from cdc.connect.source.slots.slot import SlotState
from cdc.connect.source.slots.slot_health import SourceLook
from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.position import Lsn, Position
from cdc.core.table import TableName
from cdc.core.table_state import Followed
from cdc.core.transaction import TransactionEnd
from cdc.run.status.asking.facts import CaptureLook, Facts, FollowerLook, LogLook, StreamLook, TablesLook
from cdc.run.status.asking.file_question import FileQuestion
from cdc.run.status.asking.questions import NOTHING, LastAnswer
from cdc.run.status.document import Document
from cdc.run.status.judging.composition import Composition
from cdc.run.status.judging.measures import Measures
from cdc.run.status.judging.rates import Past
from cdc.run.status.stream_report import StreamReport
from cdc.run.status.things import Level, State, to_time

NOW = 1_700_000_000.0
NAME = "public.orders"
END = TransactionEnd(9, 4, Lsn(900), round(1000 * (NOW - 30)), {NAME: 40})
SLOT = SlotState("cdc_shop", True, "reserved", Lsn(880), Lsn(500), 400, 77)
SOURCE = SourceLook(NOW, Lsn(1000), "17.4", SLOT, 4096, 3000, oldest=OldestTransaction(41822, "me", NOW - 7200))


@pytest.fixture
def settings(tmp_path: Path) -> PipelineSettings:
    (tmp_path / "cdc.yaml").write_text(template(TemplateValues(password="p")))
    return load(tmp_path / "cdc.yaml")


def answered(value: object, age: float = 1.0) -> LastAnswer[object]:
    return LastAnswer(value, checked_at=NOW - age, holds_seconds=15.0)


def facts(*, offset: int = 9, age: float = 1.0, newest_age: float = 4.0, **others: object) -> Facts:
    look = TablesLook([TableName.parse(NAME)], {NAME: Followed()}, {NAME: ["lake", "search", "latest"]})
    newest = LogLook(to_columns([END]), Position(9, Lsn(900), 4), NOW - newest_age, {NAME: NOW - 30})
    at = FollowerLook(Position(offset, Lsn(100 * offset), 4))
    made: dict[str, object] = {
        "source": answered(SOURCE, age),
        "capture": answered(CaptureLook(ConnectorState("cdc-shop", "RUNNING", ("RUNNING",))), age),
        "log": answered(newest, age),
        "lake": answered(at, age),
        "tables": answered(look, age),
        "fed": {"search": answered(at, age), "latest": answered(at, age)},
        **others,
    }
    return Facts(NOW, **made)  # type: ignore[arg-type]


def compose(settings: PipelineSettings, found: Facts) -> Document:
    return Composition(settings, found, Measures(settings, found, Past()), {}, 2.0).compose(None, 2, 5)


def test_all_is_current_with_numbers_and_ages(settings: PipelineSettings) -> None:
    made = compose(settings, facts())
    assert (made.verdict.level, made.verdict.title) == (Level.OK, "Everything is current")
    assert {part.checked_at for part in made.parts.values()} == {to_time(NOW - 1)}
    assert made.log_age_seconds == 4.0
    table = made.tables[NAME]
    assert (table.state, table.changes_per_minute, table.changed_at) == (State.FOLLOWED, 40.0, to_time(NOW - 30))
    slot = made.slot
    assert slot is not None
    assert (slot.unconfirmed_bytes, slot.safe_bytes, slot.held_by) == (120, 3000, "pid 41822 (me), open for 2 h 0 min")


def test_a_lag_is_a_time_and_a_trend(settings: PipelineSettings) -> None:
    made = compose(settings, facts(offset=8))
    lake = made.followers["lake"]
    assert (lake.state, lake.word, lake.behind_seconds, lake.changes_waiting) == (
        State.BEHIND,
        "behind by 30 s",
        30.0,
        40,
    )
    # those that have all of the lake wait for it, and are no problem of their own
    assert made.followers["search"].state is State.WAITS
    assert list(made.problems) == ["follower.behind:lake"]
    assert (made.verdict.level, made.exit_code) == (Level.TODAY, 0)
    unfollowed = compose(settings, replace(facts(offset=8), streams={})).problems["follower.behind:lake"]
    assert (unfollowed.why, unfollowed.command) == ("lake is behind by 30 s, nobody follows it here", "cdc follow")


def test_a_half_teardown_is_the_only_problem(settings: PipelineSettings) -> None:
    half = PreconditionError("a teardown is half done", "`cdc teardown` finishes it")
    made = compose(settings, replace(facts(offset=8), half_teardown=half))
    assert [(problem.level, problem.command) for problem in made.problems.values()] == [(Level.NOW, "cdc teardown")]
    assert made.steps == []
    assert compose(settings, replace(Facts(NOW), half_teardown=half, fed=facts().fed)).steps == []


def test_what_was_not_renewed_is_not_known_and_not_well(settings: PipelineSettings) -> None:
    made = compose(settings, facts(age=40.0))
    assert {part.state for part in made.parts.values()} == {State.UNKNOWN}
    assert {follower.state for follower in made.followers.values()} == {State.UNKNOWN}
    assert made.tables[NAME].state is State.UNKNOWN
    assert made.parts["log"].word == "not known; last looked 40 s ago"
    assert made.verdict.level is Level.UNKNOWN
    nothing = Facts(NOW, fed={"search": NOTHING, "latest": NOTHING})
    assert compose(settings, nothing).verdict.level is Level.UNKNOWN


def test_a_silent_source_keeps_the_last_known_numbers(settings: PipelineSettings) -> None:
    silent = LastAnswer(SOURCE, UnreachableError("Postgres does not answer", "start it"), NOW - 90, NOW)
    made = compose(settings, facts(source=silent))
    source = made.parts["source"]
    assert (source.state, source.since, source.is_cause) == (State.SILENT, to_time(NOW - 90), True)
    assert {fact.name: fact.value for fact in source.facts}["version"] == "17.4"
    assert made.followers["lake"].behind_seconds is None
    assert [problem.what for problem in made.problems.values()] == ["Postgres shop does not answer"]
    assert made.exit_code == 4


def test_a_quiet_source_is_no_standstill(settings: PipelineSettings) -> None:
    quiet = compose(settings, facts(newest_age=20.0))
    assert (quiet.parts["log"].state, quiet.verdict.level) == (State.OK, Level.OK)
    still = compose(settings, facts(newest_age=1440.0))
    assert (still.parts["log"].word, still.followers["lake"].state) == ("waits for capture", State.WAITS)


def test_a_look_that_read_the_newest_commits_alone_tells_their_rate(settings: PipelineSettings) -> None:
    busy = [replace(END, offset=n, committed_ms=round(1000 * NOW) - 2000 + 20 * n) for n in range(100)]
    log = LogLook(to_columns(busy), Position(99, Lsn(900), 4), NOW, {}, hop_seconds=0.25)
    made = compose(settings, facts(offset=99, log=answered(log)))
    changes = 40
    assert made.tables[NAME].changes_per_minute == pytest.approx(60 * 50 * changes, rel=0.02)


def test_each_step_tells_what_it_adds(settings: PipelineSettings) -> None:
    log = LogLook(to_columns([END]), Position(9, Lsn(900), 4), NOW, {}, hop_seconds=0.25)
    fresh = {"lake": [0.5, 0.75, 4.0], "search": [1.0]}
    streams = {
        name: StreamLook(report=StreamReport(at=NOW, began_at=0, pid=1, freshness=f)) for name, f in fresh.items()
    }
    made = compose(settings, facts(log=answered(log), streams=streams))
    assert {name: part.hop_seconds for name, part in made.parts.items()} == {
        "source": None,
        "capture": 0.25,
        "log": None,
        "lake": 0.5,
    }
    hops = {name: follower.hop_seconds for name, follower in made.followers.items()}
    assert hops == {"lake": 0.5, "search": 0.25, "latest": None}
    assert made.followers["lake"].headroom_seconds == 3600 * settings.log.retention_hours


def test_a_file_that_has_changed_since_is_told(settings: PipelineSettings, tmp_path: Path) -> None:
    path = tmp_path / "own" / "cdc.yaml"
    path.parent.mkdir()
    question = FileQuestion(path)
    assert question.look([]).state == "cannot be read"
    path.write_text(template(TemplateValues(password="p")))
    own = load(path)
    assert question.look([]).state == "is followed by nobody here"
    assert question.look([own.digest]).state == "equals what runs"
    path.write_text(path.read_text().replace("trigger_seconds: 0.2", "trigger_seconds: 0.25"))
    found = question.look([own.digest])
    assert found.state == "differs from what runs"
    made = compose(settings, facts(file=found))
    assert str(made.problems["pipeline.file"]).startswith("cdc.yaml has changed since `cdc follow` began")
    assert (made.verdict.level, made.exit_code, made.pipeline.file) == (Level.KNOW, 0, "cdc.yaml")
    path.write_text("pipeline: [")
    assert question.look([own.digest]).state == "has errors"


def test_a_new_session_on_the_slot_is_a_restart_and_one_total_has_a_rate() -> None:
    past = Past()
    assert [past.count_sessions(pid) for pid in (None, 7, 7, None, 7, 8, 9)] == [1, 1, 1, 1, 1, 2, 3]
    assert past.measure_total("v", 0.0, 10) is None
    assert past.measure_total("v", 30.0, 70) == 2.0
    # another process began to count
    assert past.measure_total("v", 40.0, 5) is None
