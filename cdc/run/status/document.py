"""The status document: everything that is known of a pipeline at one moment, as values with a JSON form.

One document feeds `cdc status`, `cdc top`, the page of `cdc serve`, and the metrics. Objects are maps by name, so that a
merge patch (RFC 7396) reaches everything. Times are in UTC by the source's clock where that is known, else by this
machine's; units are in the names. What is absent in the JSON is not known, or has its default.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec


class State(StrEnum):
    """The state of a part, a follower, a view or a table; each has its own words."""

    OK = "ok"
    BEHIND = "behind"
    STILL = "still"
    """It says that it runs, and nothing moves."""
    STOPPED = "stopped"
    FAILED = "failed"
    PAUSED = "paused"
    WAITS = "waits"
    """Nothing is wrong with it: it has nothing to do until a part before it goes on."""
    NEW = "new"
    SILENT = "silent"
    """It does not answer; its numbers are the last known ones."""
    UNKNOWN = "unknown"
    """Nobody has looked for too long, or it was never asked."""
    FOLLOWED = "followed"
    COPYING = "copying"
    JOINING = "joining"
    LISTED = "listed"
    """It has no copy yet."""


class Level(StrEnum):
    """How soon somebody has to act, or how the whole stands.

    NOW: readers see old or wrong data and it does not mend itself, or history is lost within half an hour. TODAY: it
    becomes that, or mends itself slowly. KNOW: it can wait for the morning. The others are verdicts without a problem.
    """

    NOW = "now"
    TODAY = "today"
    KNOW = "know"
    UNKNOWN = "unknown"
    """Too little is known to say that all is well."""
    NEW = "new"
    BUSY = "busy"
    OK = "ok"


class Value(msgspec.Struct, frozen=True, omit_defaults=True, rename={"holders": "in"}):
    """A value of the document; `holders` is called `in` in JSON."""


class About(Value, frozen=True, kw_only=True):
    """The pipeline itself. `may_act`: this server takes verbs. `file_state`: whether the file equals what runs."""

    name: str
    version: str
    goal_seconds: float = 5.0
    may_act: bool = False
    file: str | None = None
    file_state: str | None = None


class Verdict(Value, frozen=True, kw_only=True):
    """The one sentence. `{left}` in `title` stands for the time until `deadline`."""

    level: Level
    title: str
    detail: str = ""
    deadline: datetime | None = None
    since: datetime | None = None


class Subject(Value, frozen=True, kw_only=True):
    """What a problem is about. `kind`: part, follower, table, view, letters, verification, slot or pipeline."""

    kind: str
    name: str


class Problem(Value, frozen=True, kw_only=True):
    """What is wrong, since when, why, whom it hurts, and what to type.

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
        event = f"{self.what}: {self.why}" if self.why else self.what
        return f"{event} → {self.remedy}" if self.remedy else event


class Fact(Value, frozen=True, kw_only=True):
    """A line of a part's drawer. `deep`: shown with bytes and LSNs only."""

    name: str
    value: str
    deep: bool = False


class Part(Value, frozen=True, kw_only=True):
    """A part of the path. `hop_seconds`: the median time that this step adds to a change. `line`: below its word."""

    order: int
    kind: str
    name: str
    state: State
    word: str
    since: datetime | None = None
    checked_at: datetime | None = None
    hop_seconds: float | None = None
    line: str = ""
    is_cause: bool = False
    facts: Sequence[Fact] = ()


class Slot(Value, frozen=True, kw_only=True):
    """The replication slot. `full_in_seconds`: at the rate of the last 30 minutes; None while it does not fill.

    `limit_bytes`: of `max_slot_wal_keep_size`; None without a limit. `held_by`: whom it waits for.
    """

    name: str
    state: State
    word: str
    active: bool = False
    wal_status: str | None = None
    retained_bytes: int | None = None
    limit_bytes: int | None = None
    safe_bytes: int | None = None
    bytes_per_second: float | None = None
    full_in_seconds: float | None = None
    full_at: datetime | None = None
    held_by: str | None = None
    spilled_bytes: int | None = None
    confirmed_lsn: str | None = None
    restart_lsn: str | None = None
    unconfirmed_bytes: int | None = None
    inactive_seconds: float | None = None
    xmin_age_transactions: int | None = None


class Batch(Value, frozen=True, kw_only=True):
    """The newest batches of a stream: medians, and the seconds that each stage took."""

    changes_p50: float | None = None
    seconds_p50: float | None = None
    stages: Mapping[str, float] = {}


class Follower(Value, frozen=True, kw_only=True):
    """A follower. `behind_seconds`: since the oldest commit that it lacks; 0 where it lacks none.

    `trend`: catching up, falling behind, or not catching up. `kept_goal_ratio` and percentiles are of 24 h or less; `day`
    has the median of each hour. `holds`: how many tables.
    """

    order: int
    kind: str
    what: str
    state: State
    word: str
    since: datetime | None = None
    checked_at: datetime | None = None
    why: str | None = None
    behind_seconds: float | None = None
    changes_waiting: int | None = None
    bytes_waiting: int | None = None
    is_caught_up: bool | None = None
    lsn: str | None = None
    end_offset: int | None = None
    trend: str | None = None
    caught_up_in_seconds: float | None = None
    hop_seconds: float | None = None
    p50_seconds: float | None = None
    p99_seconds: float | None = None
    arrives_per_second: float | None = None
    applies_per_second: float | None = None
    kept_goal_ratio: float | None = None
    batch: Batch | None = None
    day: Sequence[float] = ()
    holds: int = 0


class Copy(Value, frozen=True, kw_only=True):
    """A copy under way. `is_estimate`: of `all_rows`, so no percentage reaches 100 before the copy has joined."""

    phase: str
    done_rows: int | None = None
    all_rows: int | None = None
    is_estimate: bool = True
    rows_per_second: float | None = None
    seconds_left: float | None = None
    began_at: datetime | None = None


class TableStatus(Value, frozen=True, kw_only=True):
    """A table. `rows`: of the source; `rows_in`: of each follower that holds it, None where it has no copy of it.

    `not_counted`: the followers that would have to read every row. `recopy`: `cdc follow` copies it again by itself.
    """

    state: State = State.FOLLOWED
    since: datetime | None = None
    rows: int | None = None
    rows_in: Mapping[str, int | None] = {}
    not_counted: Sequence[str] = ()
    changes_per_minute: float | None = None
    changed_at: datetime | None = None
    day: Sequence[float] = ()
    holders: Sequence[str] = ()
    in_views: Sequence[str] = ()
    held_keys: int = 0
    letters: int = 0
    reason: str | None = None
    lsn: str | None = None
    recopy: bool | None = None
    changes_waiting: int | None = None
    verified_at: datetime | None = None
    verdict: str | None = None
    history: bool = False
    copy: Copy | None = None


class View(Value, frozen=True, kw_only=True):
    """A view. `shows_seconds`: from a commit to the cut that shows it. `how`: by keys, or as a whole."""

    order: int
    state: State
    word: str
    since: datetime | None = None
    rows: int | None = None
    lsn: str | None = None
    why: str | None = None
    shows_seconds: float | None = None
    how: str | None = None
    engine: str | None = None
    groups_per_minute: float | None = None
    late: int | None = None
    tables: Sequence[str] = ()
    holders: Sequence[str] = ()
    verified_at: datetime | None = None
    verdict: str | None = None
    day: Sequence[float] = ()


class Letters(Value, frozen=True, kw_only=True):
    """Messages of one table that were not applied, for one reason; no value of them."""

    table: str
    reason: str
    keys: int
    messages: int
    waiting: int = 0
    oldest_at: datetime | None = None
    first: str | None = None


class Verification(Value, frozen=True, kw_only=True):
    """The newest verification of a follower, or of the views. `of`: the tables that it holds."""

    at: datetime
    verdict: str
    lsn: str | None = None
    seconds: float | None = None
    every_seconds: float | None = None
    due: datetime | None = None
    late: bool = False
    tables: int = 0
    of: int = 0
    rows: int | None = None
    differences: int = 0


class Event(Value, frozen=True, kw_only=True):
    """What happened. `kind`: of the thing that it happened to."""

    at: datetime
    kind: str
    text: str
    level: Level | None = None


class Percentiles(Value, frozen=True, kw_only=True):
    p50: Sequence[float | None] = ()
    p99: Sequence[float | None] = ()


class Series(Value, frozen=True, kw_only=True):
    """The last 6 h, one point a step from `start` on; None where nobody looked."""

    start: datetime
    step_seconds: int = 60
    freshness: Mapping[str, Percentiles] = {}
    slot_bytes: Sequence[int | None] = ()
    changes_per_minute: Mapping[str, Sequence[float | None]] = {}


class Step(Value, frozen=True, kw_only=True):
    """What a new user runs next."""

    command: str
    text: str
    done: bool = False


class Writes(Value, frozen=True, kw_only=True):
    """What the lake writes in an hour at the present rate. `requests`: of an object store."""

    commits: int
    files: int
    bytes: int
    requests: int | None = None


class Document(Value, frozen=True, kw_only=True):
    """The status document. `seq` grows by one a look; `took_ms`: how long it looked.

    `notes`: what is as it has to be, and worth knowing.
    """

    schema: int
    seq: int
    at: datetime
    every_seconds: float
    took_ms: int = 0
    pipeline: About
    verdict: Verdict
    problems: Mapping[str, Problem] = {}
    parts: Mapping[str, Part] = {}
    slot: Slot | None = None
    followers: Mapping[str, Follower] = {}
    tables: Mapping[str, TableStatus] = {}
    views: Mapping[str, View] = {}
    letters: Mapping[str, Letters] = {}
    verifications: Mapping[str, Verification] = {}
    lake_writes: Writes | None = None
    events: Sequence[Event] = ()
    series: Series | None = None
    steps: Sequence[Step] = ()
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


def to_time(seconds: float) -> datetime:
    """A time of the document: whole seconds in UTC, from seconds since 1970."""
    return datetime.fromtimestamp(int(seconds), UTC)
