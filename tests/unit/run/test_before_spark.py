"""Checks before Spark starts, and leases."""

import threading
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, assume, example, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from cdc.__main__ import main
from cdc.config.file import load
from cdc.config.settings import FOLLOWER_NAME, VIEWS, PipelineSettings
from cdc.core.errors import CdcError, HistoryLostError, PreconditionError, RefusedError, UnreachableError
from cdc.run.copy.recapture import plan_recapture
from cdc.run.follow.follow import follow
from cdc.run.lease import COPIES, Leases
from cdc.run.pipeline import Pipeline
from cdc.run.verify.verify import verify
from tests.support.waiting import until

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> PipelineSettings:
    """A pipeline that was never bootstrapped, and whose parts do not run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CDC_CONFIG", raising=False)
    monkeypatch.setenv("CDC_SOURCE_PASSWORD", "x")
    assert main(["init"]) == 0
    capsys.readouterr()
    return load(tmp_path / "cdc.yaml")


@pytest.fixture
def leases(tmp_path: Path) -> Leases:
    return Leases(tmp_path / "leases")


def no_spark() -> NoReturn:
    raise AssertionError("Spark was started")


@pytest.mark.parametrize("verb", [["follow"], ["follow", "--until-caught-up"], ["follow", "-f", "search"], ["verify"]])
def test_follow_requires_a_copy(verb: list[str], settings: PipelineSettings, capsys: Captured) -> None:
    assert main(verb) == HistoryLostError.exit_code
    said = capsys.readouterr().err
    assert said.endswith("error: the lake has no copy to go on from → run `cdc bootstrap` first\n")
    assert len(said.splitlines()) == 1


def test_verbs_without_a_copy_do_not_start_spark(settings: PipelineSettings) -> None:
    with pytest.raises(HistoryLostError, match="no copy"):
        follow(Pipeline(settings, no_spark), ("lake",), print)
    with pytest.raises(HistoryLostError, match="no copy"):
        verify(Pipeline(settings, no_spark), ("lake",), None, 10)


@pytest.mark.parametrize(("name", "told"), [("lake", "stop that one first"), (COPIES, "tables are being copied")])
def test_recapture_is_refused_before_its_question_while_somebody_works(
    settings: PipelineSettings, name: str, told: str
) -> None:
    pipeline = Pipeline(settings, no_spark)
    with pipeline.leases.hold(name), pytest.raises(RefusedError, match=told):
        plan_recapture(pipeline)


def test_lease_is_held_while_a_process_holds_it(leases: Leases) -> None:
    assert not leases.is_held("lake")
    with leases.hold("lake"):
        assert leases.is_held("lake")
        assert not leases.is_held("search")
    assert not leases.is_held("lake")


def test_looking_at_a_lease_does_not_block_it(leases: Leases) -> None:
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            leases.is_held("lake")

    with leases.hold("lake"):
        looking = threading.Thread(target=look)
        looking.start()
    try:
        for _ in range(20):
            with leases.hold("lake"):
                pass
    finally:
        ended.set()
        looking.join()
    until(lambda: not leases.is_held("lake"), "nobody holds it")


def test_lease_holder_notes_its_problem(leases: Leases) -> None:
    blocked = UnreachableError("the cluster is silent", "start it")
    with leases.hold("search") as held:
        assert leases.look("search").problem is None
        held.write_note(blocked)
        found = leases.look("search").problem
        assert (type(found), str(found)) == (UnreachableError, str(blocked))
        held.write_note(None)
        assert leases.look("search").problem is None
        held.write_note(blocked)
    # nobody waits any more
    assert leases.look("search").problem is None


@pytest.mark.parametrize(
    ("problem", "stays"),
    [
        (PreconditionError("the lake cannot be written", "make room"), True),
        (HistoryLostError("the log has lost changes", "`cdc recapture`"), True),
        (CdcError("a value that Delta refuses", "mend it"), True),
        (UnreachableError("the cluster is silent", "start it"), True),
        (RefusedError("another one has taken over", "let only one run"), False),
    ],
)
def test_what_ended_a_follower_for_good_is_known_until_somebody_follows_it(
    leases: Leases, problem: CdcError, stays: bool
) -> None:
    assert leases.look("lake").end is None
    with leases.hold("lake") as held:
        held.write_note(problem)
        assert leases.look("lake").end is None
    ended = leases.look("lake").end
    assert (ended is not None and str(ended) == str(problem)) is stays
    # one that only tries to follow it changes nothing, nor does a copy
    with leases.hold("lake"):
        pass
    assert (leases.look("lake").end is not None) is stays
    with leases.hold("lake") as held:
        held.write_note(None)
    assert leases.look("lake").end is None


@given_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.from_regex(FOLLOWER_NAME, fullmatch=True))
@example("bootstrap")
@example("copies")
def test_any_name_of_a_follower_leaves_every_other_lease_free(leases: Leases, name: str) -> None:
    """What is not a follower's, of those that the settings take, has a lease that no follower can take."""
    assume(name != VIEWS)
    with leases.hold(name):
        for other in (COPIES, VIEWS):
            assert not leases.is_held(other)
            with leases.hold(other):
                pass


def test_lease_is_lost_when_its_file_is_replaced(leases: Leases) -> None:
    with leases.hold("search") as held:
        assert held.describe_loss() is None
        held.lock.unlink()
        assert "was removed" in str(held.describe_loss())
        with leases.hold("search") as other:
            assert other.describe_loss() is None
            assert "the lease of follower search is lost" in str(held.describe_loss())
