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
from cdc.run.follow.follow import follow
from cdc.run.lease import COPIES, hold_lease, is_lease_held, read_end, read_problem
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


def no_spark() -> NoReturn:
    raise AssertionError("Spark was started")


@pytest.mark.parametrize("verb", [["follow"], ["follow", "--until-caught-up"], ["follow", "-f", "search"], ["verify"]])
def test_follow_requires_a_copy(verb: list[str], settings: PipelineSettings, capsys: Captured) -> None:
    assert main(verb) == HistoryLostError.exit_code
    assert capsys.readouterr().err == "error: the lake has no copy to go on from → run `cdc bootstrap` first\n"


def test_verbs_without_a_copy_do_not_start_spark(settings: PipelineSettings) -> None:
    with pytest.raises(HistoryLostError, match="no copy"):
        follow(settings, no_spark, ("lake",), print)
    with pytest.raises(HistoryLostError, match="no copy"):
        verify(settings, no_spark, ("lake",), None, 10)


def test_lease_is_held_while_a_process_holds_it(settings: PipelineSettings) -> None:
    assert not is_lease_held(settings, "lake")
    with hold_lease(settings, "lake"):
        assert is_lease_held(settings, "lake")
        assert not is_lease_held(settings, "search")
    assert not is_lease_held(settings, "lake")


def test_looking_at_a_lease_does_not_block_it(settings: PipelineSettings) -> None:
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            is_lease_held(settings, "lake")

    with hold_lease(settings, "lake"):
        looking = threading.Thread(target=look)
        looking.start()
    try:
        for _ in range(20):
            with hold_lease(settings, "lake"):
                pass
    finally:
        ended.set()
        looking.join()
    until(lambda: not is_lease_held(settings, "lake"), "nobody holds it")


def test_lease_holder_notes_its_problem(settings: PipelineSettings) -> None:
    blocked = UnreachableError("the cluster is silent", "start it")
    with hold_lease(settings, "search") as held:
        assert read_problem(settings, "search") is None
        held.write_note(blocked)
        found = read_problem(settings, "search")
        assert (type(found), str(found)) == (UnreachableError, str(blocked))
        held.write_note(None)
        assert read_problem(settings, "search") is None
        held.write_note(blocked)
    # nobody waits any more
    assert read_problem(settings, "search") is None


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
    settings: PipelineSettings, problem: CdcError, stays: bool
) -> None:
    assert read_end(settings, "lake") is None
    with hold_lease(settings, "lake") as held:
        held.write_note(problem)
        assert read_end(settings, "lake") is None
    ended = read_end(settings, "lake")
    assert (ended is not None and str(ended) == str(problem)) is stays
    # one that only tries to follow it changes nothing, nor does a copy
    with hold_lease(settings, "lake"):
        pass
    assert (read_end(settings, "lake") is not None) is stays
    with hold_lease(settings, "lake") as held:
        held.write_note(None)
    assert read_end(settings, "lake") is None


@given_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.from_regex(FOLLOWER_NAME, fullmatch=True))
@example("bootstrap")
@example("copies")
def test_any_name_of_a_follower_leaves_every_other_lease_free(settings: PipelineSettings, name: str) -> None:
    """What is not a follower's, of those that the settings take, has a lease that no follower can take."""
    assume(name != VIEWS)
    with hold_lease(settings, name):
        for other in (COPIES, VIEWS):
            assert not is_lease_held(settings, other)
            with hold_lease(settings, other):
                pass


def test_lease_is_lost_when_its_file_is_replaced(settings: PipelineSettings) -> None:
    with hold_lease(settings, "search") as held:
        assert held.describe_loss() is None
        held.lock.unlink()
        assert "was removed" in str(held.describe_loss())
        with hold_lease(settings, "search") as other:
            assert other.describe_loss() is None
            assert "the lease of follower search is lost" in str(held.describe_loss())
