"""The streams that a repair needs: those that run on this machine, and in this process those that nobody runs."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import Connection

from cdc.config.settings import CAPTURE, VIEWS
from cdc.connect.source import heartbeat
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.position import Lsn
from cdc.core.waiting import Deadline
from cdc.run.follow.follow import follow
from cdc.run.pipeline import Pipeline
from cdc.run.repair_requests import RepairAnswer, RepairRequest
from cdc.run.spark.errors import to_cdc_error
from cdc.run.verify.catch_up import ReadPosition, wait_for_lsn

POLL_SECONDS: Final = 0.1
BEAT_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 120.0
Say = Callable[[str], None]


@dataclass(slots=True)
class Streams:
    """The streams of these names, while they run. `check` raises what has ended one of them."""

    pipeline: Pipeline
    names: Sequence[str]
    connection: Connection[Any]
    check: Callable[[], None]
    patience: float
    beat: Deadline = field(default_factory=lambda: Deadline(0))

    def wait(self, is_done: Callable[[], bool], what: str) -> None:
        """Wait for what the streams do, with heartbeats, since a quiet source has no transaction that moves them.

        Raises PreconditionError once `patience` seconds are over.
        """
        deadline = Deadline(self.patience)
        while not is_done():
            if deadline.is_past:
                raise PreconditionError(f"{what}: not in {self.patience:.0f} s", "see `cdc status`; --wait gives more")
            self.look()
            time.sleep(POLL_SECONDS)

    def look(self) -> None:
        """Check the streams, and write a heartbeat every BEAT_SECONDS."""
        self.check()
        if self.beat.is_past:
            source = self.pipeline.settings.source
            heartbeat.write_heartbeat(self.connection, source, self.pipeline.name, "repair")
            self.beat = Deadline(BEAT_SECONDS)

    def wait_for_lsn(self, lsn: Lsn, name: str, read_position: ReadPosition) -> None:
        """Wait until a follower has everything committed up to an LSN."""
        wait_for_lsn(self.pipeline, name, read_position, lsn, self.patience, self.look)

    def wait_for_offset(self, offset: int, name: str, read_position: ReadPosition) -> None:
        """Wait until a follower has the cut at this END offset."""

        def has_reached() -> bool:
            at = read_position()
            return at is not None and at.end_offset >= offset

        self.wait(has_reached, f"{name} has not reached the cut of the repair")

    def put_right(self, requests: Collection[RepairRequest], kind: str) -> list[RepairAnswer]:
        """Hand requests to the streams, and wait for their answers; they are taken back if there are none."""
        asked, answers = self.pipeline.repair_requests, dict[str, RepairAnswer]()
        ids = list[str]()

        def are_answered() -> bool:
            found = {id: asked.take_answer(id) for id in ids if id not in answers}
            answers.update({id: answer for id, answer in found.items() if answer is not None})
            return len(answers) == len(ids)

        try:
            # one by one: what was handed over before one that fails is taken back, too
            for request in requests:
                ids.append(asked.submit(request, kind))
            self.wait(are_answered, "the repair was not taken up")
        finally:
            asked.withdraw(ids)
        return [answers[id] for id in ids]


class _OwnStreams:
    """Those of the streams that nobody runs on this machine, in a thread of this process."""

    def __init__(self, pipeline: Pipeline, names: Sequence[str], say: Say) -> None:
        self._pipeline = pipeline
        self._say = say
        self._others = [name for name in names if pipeline.leases.is_held(name)]
        self._names = [name for name in names if name not in self._others]
        self._stopping = threading.Event()
        self._failure: CdcError | None = None
        self._thread = threading.Thread(target=self._run, name="repair follows", daemon=True)

    def start(self) -> None:
        if self._names:
            self._say(f"nobody follows {', '.join(self._names)} on this machine: this does until it ends")
            self._thread.start()

    def end(self) -> None:
        self._stopping.set()
        if self._names:
            self._thread.join()

    def check(self) -> None:
        """Raise what has ended one of the streams."""
        if self._failure:
            raise self._failure
        if ended := [name for name in self._others if not self._pipeline.leases.is_held(name)]:
            raise PreconditionError(f"the `cdc follow` of {', '.join(ended)} has ended", "run `cdc repair` again")

    def _run(self) -> None:
        try:
            follow(self._pipeline.reopened(), self._names, self._say, stopping=self._stopping)
        except Exception as error:  # noqa: BLE001 - raised by whoever waits for it
            self._failure = error if isinstance(error, CdcError) else to_cdc_error("the repair", error)


def list_needed(pipeline: Pipeline, names: Collection[str]) -> list[str]:
    """The streams that a repair of these followers waits for: theirs, and those that feed them."""
    settings = pipeline.settings
    needed = {pipeline.lake_name, *names}
    if any(name != VIEWS and settings.holds_views(name) for name in names):
        needed.add(VIEWS)
    return [name for name in settings.stream_names if name in needed]


def check_unpaused(pipeline: Pipeline, names: Sequence[str]) -> None:
    """Raise PausedError when the capture or one of these streams is paused, which would not take a repair up."""
    pauses = [pipeline.requests.read_pause(CAPTURE), *map(pipeline.find_pause, names)]
    for pause in filter(None, pauses):
        raise pause


@contextmanager
def run_streams(
    pipeline: Pipeline, names: Sequence[str], connection: Connection[Any], say: Say, patience: float
) -> Iterator[Streams]:
    """The streams of these names, as long as the context lasts."""
    own = _OwnStreams(pipeline, names, say)
    own.start()
    try:
        yield Streams(pipeline, names, connection, own.check, patience)
    finally:
        own.end()
