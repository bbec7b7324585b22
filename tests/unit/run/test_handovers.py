"""A stream that rests for a rebuild: as long as that holds its lease, and no longer."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from cdc.core.errors import RefusedError
from cdc.run.copy.resync_queue import ResyncQueue
from cdc.run.follow.process_streams import FollowContext, ProcessStreams
from cdc.run.follow.stop_reports import StopReports
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.lease import HANDED_OVER, Lease, Leases, name_rebuild
from cdc.run.pipeline import Pipeline
from cdc.run.rebuild import handover
from cdc.run.rebuild.handover import take_over
from cdc.run.rebuilds import RebuildNote, Rebuilds, Replaced, Running
from cdc.run.requests import Requests
from cdc.run.shutdown import StreamEnd


class Held(Pipeline):
    """As much of a pipeline as a handover asks for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def leases(self) -> Leases:
        return Leases(self.folder / "leases")

    @property
    def requests(self) -> Requests:
        return Requests(self.folder / "requests")


def test_nobody_follows_meanwhile(tmp_path: Path) -> None:
    held = Held(tmp_path)
    with take_over(held, "search", print), pytest.raises(RefusedError), held.leases.hold("search"):
        pass
    assert not held.requests.ends_stream("search")
    with held.leases.hold("search"):
        pass


def test_a_stream_that_rests_is_enough(tmp_path: Path) -> None:
    held = Held(tmp_path)
    with held.leases.hold("search") as lease:
        lease.write_note(HANDED_OVER)
        with take_over(held, "search", print):
            assert held.requests.ends_stream("search")
        assert not held.requests.ends_stream("search")


def test_one_that_does_not_rest_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "HAND_OVER_SECONDS", 0.0)
    held = Held(tmp_path)
    with (
        held.leases.hold("search"),
        pytest.raises(RefusedError, match="search has not rested for 0 s"),
        take_over(held, "search", print),
    ):
        pass
    assert not held.requests.ends_stream("search")


def test_a_second_rebuild_is_refused_by_name(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    with (
        leases.hold(name_rebuild("search")),
        pytest.raises(RefusedError, match="search is being rebuilt by process"),
        leases.hold(name_rebuild("search")),
    ):
        pass


def test_a_note_is_read_as_it_was_written_and_a_damaged_one_as_none(tmp_path: Path) -> None:
    notes = Rebuilds(tmp_path / "rebuilds")
    note = RebuildNote(Running("search", "lake", "copies", 10.0, 50, 200), {"public.things": Replaced(20.0, 3)})
    notes.write("search", note)
    assert notes.read("search") == note
    assert notes.list_streams() == ["search"]
    (tmp_path / "rebuilds" / "search.json").write_text("{")
    assert notes.read("search") == RebuildNote()
    notes.write("search", RebuildNote())
    assert notes.list_streams() == []


def test_progress_has_rows_rate_and_the_time_left() -> None:
    told = Running("search", "lake", "copies 2 tables", 100.0, 50, 200).describe(110.0)
    assert told == "copies 2 tables, 50 of 200 rows, 5 a second, about 30 s left"
    assert Running("search", "lake", "swaps", 100.0).describe(110.0) == "swaps"


class Resting(ProcessStreams):
    """As much of the streams of a process as a handover asks for."""

    def __init__(self, held: Held, lease: Lease) -> None:
        self._pipeline, self._fed, self._stopping = held, {}, threading.Event()
        self.said = list[str]()
        self._say = self.said.append
        stops, resyncs = StopRequests(), ResyncQueue()
        self._context = FollowContext(
            None, self._say, stops, resyncs, StopReports(self._say, resyncs), {"search": lease}
        )

    def rest(self) -> None:
        self._hand_over("search", StreamEnd(self._stopping, lambda: False), ExitStack())


def test_a_stream_goes_on_when_who_has_it_is_killed(tmp_path: Path) -> None:
    held = Held(tmp_path)
    with held.leases.hold("search") as lease:
        streams = Resting(held, lease)
        streams.rest()
        assert not streams.said
        # its lease went with it, and the file stayed
        held.requests.hand_over("search")
        streams.rest()
        assert streams.said == ["search: rests while `cdc rebuild` swaps it"]
        assert not held.requests.ends_stream("search")
        assert held.leases.look("search").noted is None


def test_a_stream_rests_until_it_is_given_back(tmp_path: Path) -> None:
    held = Held(tmp_path)
    with (
        held.leases.hold("search") as lease,
        held.leases.hold(name_rebuild("search")),
        ThreadPoolExecutor(1) as threads,
    ):
        streams, swapped = Resting(held, lease), False
        held.requests.hand_over("search")
        resting = threads.submit(streams.rest)
        with take_over(held, "search", print):
            swapped = not resting.done()
        resting.result()
        assert swapped
