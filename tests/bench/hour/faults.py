"""Every part is killed in turn, and started again; `cdc follow` too, which is also started when it ends by itself."""

import contextlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final

import psutil

from tests.bench.goal import Failed
from tests.bench.meter.meter import Meter
from tests.bench.world.jobs import Job, cdc_command, run, started, telling_line
from tests.bench.world.parts import PARTS, Parts
from tests.bench.world.pipeline import Pipeline

FOLLOW: Final = "follow"
TURN: Final = ("postgres", FOLLOW, "kafka", "search", "connect")
LOOK_SECONDS: Final = 1.0
TRIES: Final = 4
"""Of `cdc up`."""


@dataclass(slots=True)
class Kill:
    """One part's end, by the wall clock; `back` when it was started again, None where it was not."""

    part: str
    at: float
    back: float | None = None
    said: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class Follower:
    """The process of `cdc follow`, life after life, each with a log of its own."""

    pipeline: Pipeline
    metrics: int
    lives: int = 0
    ended: list[Kill] = field(default_factory=list)
    """Lives that nobody ended."""
    job: Job | None = None
    _held: ExitStack = field(default_factory=ExitStack)
    _lock: Lock = field(default_factory=Lock)

    def start(self) -> None:
        self.lives += 1
        command = cdc_command(self.pipeline.config, "follow", "--metrics", str(self.metrics))
        life = started(self.pipeline.meter, command, self.pipeline.work, f"follow-{self.lives}")
        self.job = self._held.enter_context(life)

    def kill(self) -> None:
        """End its Python as a machine does that has no memory left; its Java sees to itself."""
        with self._lock:
            assert self.job is not None
            self.job.process.kill()
            self._leave()
            self.start()

    def look(self) -> None:
        """Start it again if it has ended by itself."""
        with self._lock:
            if self.job is None or self.job.code is None:
                return
            kill = Kill(FOLLOW, time.time(), said=f"ended with {self.job.code}: {telling_line(self.job.said)}")
            self.ended.append(kill)
            self._leave()
            self.start()
            kill.back = time.time()

    def end(self) -> None:
        with self._lock:
            self._leave()

    def _leave(self) -> None:
        self._held.close()
        self._held, self.job = ExitStack(), None


@dataclass(frozen=True, slots=True)
class Killer:
    """Kills one part after another, `pause` seconds apart."""

    parts: Parts
    meter: Meter
    follower: Follower
    pause: float
    say: Callable[[str], None]
    kills: list[Kill] = field(default_factory=list)

    def run(self, ended: Event) -> None:
        """Kill until told to end; between two kills, see that `cdc follow` runs."""
        began = time.monotonic()
        while not ended.is_set():
            # by the clock, however long the one before took: each part has its turn as often as is asked for
            due = began + self.pause * (len(self.kills) + 1)
            while time.monotonic() < due:
                self.follower.look()
                if ended.wait(LOOK_SECONDS):
                    return
            part = TURN[len(self.kills) % len(TURN)]
            kill = Kill(part, time.time())
            self.kills.append(kill)
            try:
                self._kill(part)
                kill.back = time.time()
            except (Failed, psutil.Error) as error:
                kill.said = str(error)
            back = f"back after {kill.back - kill.at:.1f} s" if kill.back else kill.said
            self.say(f"killed {part}: {back}")

    def _kill(self, part: str) -> None:
        if part == FOLLOW:
            self.follower.kill()
            return
        config = self.parts.folder / PARTS
        # none where it could not be started the last time
        if (pid := self._find(config, part)) is not None:
            self.meter.leave(pid)
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                process.kill()
                psutil.wait_procs([process], timeout=20)
        self._start(config)
        if (pid := self._find(config, part)) is None:
            raise Failed(f"{part} has ended again")
        self.meter.watch(pid, part)

    def _start(self, config: Path) -> None:
        """`cdc up`, again where a busy machine lets the part take longer than that waits."""
        for tries_left in reversed(range(TRIES)):
            try:
                run(self.meter, cdc_command(config, "up", "--json"), self.parts.folder / "up")
            except Failed as failure:
                if not tries_left:
                    raise
                self.say(str(failure))
            else:
                return

    def _find(self, config: Path, part: str) -> int | None:
        """The process of a part; None if it does not run."""
        listed = run(self.meter, cdc_command(config, "parts", "--json"), self.parts.folder / "up").json()
        [pid] = [each["pid"] for each in listed if each["part"] == part]
        return None if pid is None else int(pid)
