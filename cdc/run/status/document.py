"""The status document: everything that is known of a pipeline at one moment, as values with a JSON form.

One document feeds `cdc status`, `cdc top`, the page of its server, and the metrics. Objects are maps by name, so that
a merge patch (RFC 7396) reaches everything. Times are in UTC by this machine's clock, those of commits by the source's;
units are in the names. What is absent in the JSON is not known, or has its default.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from cdc.run.status.things import (
    FileCounts,
    FollowerStatus,
    Letters,
    Level,
    Part,
    Slot,
    StatusValue,
    TableStatus,
    Verification,
    View,
    Writes,
)


class About(StatusValue, frozen=True, kw_only=True):
    """The pipeline itself. `may_act`: this server takes verbs. `file_state`: whether the file equals what runs."""

    name: str
    version: str
    goal_seconds: float = 5.0
    may_act: bool = False
    file: str | None = None
    file_state: str | None = None


class StatusVerdict(StatusValue, frozen=True, kw_only=True):
    """The one sentence. `{left}` in `title` stands for the time until `deadline`."""

    level: Level
    title: str
    detail: str = ""
    deadline: datetime | None = None
    since: datetime | None = None


class Subject(StatusValue, frozen=True, kw_only=True):
    """What a problem is about. `kind`: part, follower, table, view, letters, verification, slot or pipeline."""

    kind: str
    name: str


class StatusProblem(StatusValue, frozen=True, kw_only=True):
    """What is wrong in short, since when, the whole reason why, whom it hurts, and what to type.

    `{left}` and `{age}` in a text stand for the time until `deadline` and since `since`. `exit_code`: of a verb that
    fails for it.
    """

    order: int = 0
    level: Level
    subject: Subject = msgspec.field(name="object")
    what: str
    why: str = ""
    hurts: str = ""
    since: datetime | None = None
    deadline: datetime | None = None
    remedy: str = ""
    file: str | None = None
    command: str | None = None
    language: str | None = None
    verb: str | None = None
    exit_code: int = 3

    def __str__(self) -> str:
        """The problem as one line, as errors are told."""
        event = self.why or self.what
        return f"{event} → {self.remedy}" if self.remedy else event


class StatusEvent(StatusValue, frozen=True, kw_only=True):
    """What happened. `kind`: of the thing that it happened to."""

    at: datetime
    kind: str
    text: str
    level: Level | None = None


class Percentiles(StatusValue, frozen=True, kw_only=True):
    p50: Sequence[float | None] = ()
    p99: Sequence[float | None] = ()


class Series(StatusValue, frozen=True, kw_only=True):
    """The last 6 h, one point a step from `start` on; None where nobody looked."""

    start: datetime
    step_seconds: int = 60
    freshness: Mapping[str, Percentiles] = {}
    slot_bytes: Sequence[int | None] = ()
    changes_per_minute: Mapping[str, Sequence[float | None]] = {}


class StatusStep(StatusValue, frozen=True, kw_only=True):
    """What a new user runs next."""

    command: str
    text: str
    done: bool = False


class Document(StatusValue, frozen=True, kw_only=True):
    """The status document. `seq` grows by one a look; `took_ms`: how long it looked.

    `log_age_seconds`: since the newest commit in the log, heartbeats included; `log_bytes`: of its topics by kind, with
    all replicas. `disk_free_bytes`: where this machine keeps lake and state. `notes`: what is as it has to be, and
    worth knowing.
    """

    schema: int
    seq: int
    at: datetime
    every_seconds: float
    took_ms: int = 0
    pipeline: About
    verdict: StatusVerdict
    problems: Mapping[str, StatusProblem] = {}
    parts: Mapping[str, Part] = {}
    slot: Slot | None = None
    followers: Mapping[str, FollowerStatus] = {}
    tables: Mapping[str, TableStatus] = {}
    views: Mapping[str, View] = {}
    letters: Mapping[str, Letters] = {}
    verifications: Mapping[str, Verification] = {}
    log_age_seconds: float | None = None
    log_bytes: Mapping[str, int] = {}
    disk_free_bytes: Mapping[str, int] = {}
    lake_files: FileCounts | None = None
    lake_writes: Writes | None = None
    events: Sequence[StatusEvent] = ()
    series: Series | None = None
    steps: Sequence[StatusStep] = ()
    notes: Sequence[str] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of the most urgent problem; 0 without one."""
        return next((problem.exit_code for problem in self.problems.values()), 0)


def encode(document: Document) -> bytes:
    """The document's JSON, on one line."""
    return msgspec.json.encode(document)


def to_builtins(document: Document) -> dict[str, Any]:
    """The document as JSON values: `seq`, `schema` and `every_seconds` included."""
    found: dict[str, Any] = msgspec.json.decode(encode(document))
    return found


def decode(text: bytes | str) -> Document:
    """Read a document back; raises msgspec.ValidationError for another text."""
    return msgspec.json.decode(text, type=Document)
