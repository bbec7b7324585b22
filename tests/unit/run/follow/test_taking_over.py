"""A follow takes its followers over before it says that it follows them."""

import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.core.errors import CdcError, RefusedError, UnreachableError
from cdc.core.fail_points import arm
from cdc.run.follow.follow import _wait_for_streams
from cdc.run.follow.process_streams import FollowContext, ProcessStreams
from cdc.run.requests import Requests

NOWHERE = Path("/nowhere")
TAKEN = RefusedError("another one has taken over")


class Follower:
    """A follower behind the lake that only notes who takes it over, and may be out of reach."""

    def __init__(self, heard: list[str], failure: CdcError | None) -> None:
        self._heard = heard
        self._failure = failure

    def take_over(self) -> None:
        if self._failure:
            raise self._failure
        self._heard.append("taken over")

    def close(self) -> None:
        self._heard.append("closed")


class Lease:
    def write_note(self, problem: CdcError | None) -> None: ...


def make_streams(
    heard: list[str], stopping: threading.Event, failure: CdcError | None, folder: Path = NOWHERE
) -> ProcessStreams:
    pipeline: Any = SimpleNamespace(
        lake_name="lake",
        lake=SimpleNamespace(access=None),
        fed={"latest": Follower(heard, failure)},
        open_feed=lambda *_: None,
        requests=Requests(folder),
        reopened=lambda: SimpleNamespace(views=None),
    )
    unused = cast(Any, None)
    leases = {"latest": cast(Any, Lease())}
    context = FollowContext(None, heard.append, unused, unused, unused, leases)
    return ProcessStreams(pipeline, ["lake", "latest"], stopping, context)


def test_who_is_said_to_follow_has_taken_over() -> None:
    heard = list[str]()
    make_streams(heard, threading.Event(), None).take_over(["lake", "latest"])
    assert heard == ["taken over", "following: lake, latest"]


@pytest.mark.parametrize("failure", [UnreachableError("Kafka is down"), TAKEN], ids=type)
def test_one_that_cannot_be_taken_over_holds_up_nobody(failure: CdcError) -> None:
    heard = list[str]()
    make_streams(heard, threading.Event(), failure).take_over(["lake", "latest"])
    assert heard == ["following: lake, latest"]


def test_a_stream_takes_over_before_it_reads() -> None:
    heard, stopping = list[str](), threading.Event()
    assert make_streams(heard, stopping, TAKEN).run("latest") is TAKEN
    assert stopping.is_set()
    assert heard == ["closed"]


def test_a_request_that_cannot_be_taken_is_told_and_the_stream_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, stopping, requests, runs = list[str](), threading.Event(), Requests(tmp_path), list[int]()

    class Runner:
        def __init__(self, *_: object) -> None: ...

        def run(self) -> None:
            runs.append(len(runs))
            if len(runs) == 1:
                requests.restart("latest")
                arm("request.taken:raise")
            else:
                stopping.set()

    monkeypatch.setattr("cdc.run.follow.process_streams.StreamRunner", Runner)
    assert make_streams(heard, stopping, None, tmp_path).run("latest") is None
    assert len(runs) == 2
    [told, closed] = map(str, heard)
    assert told.startswith("latest: what is asked of latest stopped: [Errno 5] fail point request.taken")
    assert closed == "closed"


def test_a_stream_that_ends_by_a_defect_ends_the_process() -> None:
    """Nobody would notice that one is missing while the others go on."""
    stopping, defect, others = threading.Event(), Future[CdcError | None](), Future[CdcError | None]()
    defect.set_exception(AssertionError("a defect"))
    assert _wait_for_streams([defect, others], lambda: None, stopping) is None
    assert stopping.is_set()
