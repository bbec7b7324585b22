"""`cdc logs`: what each part said last, without Spark and without the source."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cdc.core.errors import CdcError
from cdc.core.text.error_text import pick_root_cause
from cdc.run.pipeline import Pipeline
from cdc.run.trouble_log import NAME as TROUBLE

FOLLOW_LOG: Final = "follow.log"
"""The file of the lines of `cdc follow`, in the folder of logs."""


@dataclass(frozen=True, slots=True)
class LastWords:
    """A part, its state in a word, and its newest lines, oldest first."""

    part: str
    state: str
    lines: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def logs_folder(pipeline: Pipeline) -> Path:
    return pipeline.state / "logs"


def read_last_words(pipeline: Pipeline, most: int) -> list[LastWords]:
    """The newest `most` lines of each part; one that does not answer says so."""
    folder = logs_folder(pipeline)
    return [
        *_list_followers(pipeline),
        LastWords("cdc follow", str(folder / FOLLOW_LOG), _read_tail(folder / FOLLOW_LOG, most)),
        LastWords("errors of one thing", str(folder / TROUBLE), _read_troubles(folder / TROUBLE, most)),
        *_list_tasks(pipeline),
    ]


def _list_followers(pipeline: Pipeline) -> Iterator[LastWords]:
    for name in pipeline.settings.stream_names:
        pause, note = pipeline.requests.read_pause(name), pipeline.leases.look(name)
        problem = pause or note.problem or note.end
        state = "paused" if pause else "followed here" if note.is_held else "not followed here"
        yield LastWords(f"follower {name}", state, [str(problem)] if problem else [])


def _list_tasks(pipeline: Pipeline) -> Iterator[LastWords]:
    name = pipeline.settings.connect.connector
    try:
        with pipeline.open_connect() as client:
            found = client.status(name)
    except CdcError as error:
        yield LastWords("Kafka Connect", "does not answer", [str(error)])
        return
    if found is None:
        yield LastWords(f"connector {name}", "is not there")
        return
    parts = {f"connector {name}": found.connector} | {f"its task {n}": task for n, task in enumerate(found.tasks)}
    for part, status in parts.items():
        yield LastWords(part, status.state, [pick_root_cause(status.trace)] if status.trace else [])


def _read_tail(path: Path, most: int) -> list[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, most)]
    except OSError:
        return []


def _read_troubles(path: Path, most: int) -> list[str]:
    """The lines that begin an entry, without its traceback."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [*deque((line.rstrip("\n") for line in file if line[:1].isdigit()), most)]
    except OSError:
        return []
