"""What the status document is made of: the states, and the things that have one."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum

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


class StatusValue(msgspec.Struct, frozen=True, omit_defaults=True, rename={"holders": "in"}):
    """A value of the document; `holders` is called `in` in JSON."""


class Fact(StatusValue, frozen=True, kw_only=True):
    """A line of a part's drawer. `deep`: shown with bytes and LSNs only."""

    name: str
    value: str
    deep: bool = False


class Part(StatusValue, frozen=True, kw_only=True):
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


class Slot(StatusValue, frozen=True, kw_only=True):
    """The replication slot. `full_in_seconds`: at the rate of the last 30 minutes; None while it does not fill.

    `limit_bytes`: what it may keep, of the nearer of `max_slot_wal_keep_size` and `source.slot_budget`, whose
    name is `limited_by`; None without a limit. `safe_bytes`: what may still be written until then. `held_by`:
    whom it waits for, with `release`, what helps. `held_seconds`: how long the transaction is open that it waits for.
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
    limited_by: str | None = None
    policy: str | None = None
    held_by: str | None = None
    held_seconds: float | None = None
    release: str | None = None
    spilled_bytes: int | None = None
    confirmed_lsn: str | None = None
    restart_lsn: str | None = None
    unconfirmed_bytes: int | None = None
    inactive_seconds: float | None = None
    xmin_age_transactions: int | None = None
    restarts: int = 0
    """New sessions of the connector's task that this watch has seen on it."""


class BatchTimes(StatusValue, frozen=True, kw_only=True):
    """The newest batches of a stream: medians, and the seconds that each stage took."""

    changes_p50: float | None = None
    seconds_p50: float | None = None
    stages: Mapping[str, float] = {}


class FollowerStatus(StatusValue, frozen=True, kw_only=True):
    """A follower. `behind_seconds`: since the oldest commit that it lacks; 0 where it lacks none.

    `trend`: catching up, falling behind, or not catching up. `kept_goal_ratio` and percentiles are of 24 h or less;
    `day` has the median of each hour. `holds`: how many tables. `headroom_seconds`: of the lake, until the log deletes
    what it lacks.
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
    headroom_seconds: float | None = None
    hop_seconds: float | None = None
    p50_seconds: float | None = None
    p99_seconds: float | None = None
    arrives_per_second: float | None = None
    applies_per_second: float | None = None
    kept_goal_ratio: float | None = None
    batch: BatchTimes | None = None
    day: Sequence[float] = ()
    holds: int = 0


class CopyStatus(StatusValue, frozen=True, kw_only=True):
    """A copy under way. `is_estimate`: of `all_rows`, so no percentage reaches 100 before the copy has joined."""

    phase: str
    done_rows: int | None = None
    all_rows: int | None = None
    is_estimate: bool = True
    rows_per_second: float | None = None
    seconds_left: float | None = None
    began_at: datetime | None = None


class TableStatus(StatusValue, frozen=True, kw_only=True):
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
    copy: CopyStatus | None = None


class View(StatusValue, frozen=True, kw_only=True):
    """A view. `shows_seconds`: from a commit to the cut that shows it. `how`: by keys, or as a whole.

    `groups_per_minute`: rows that are computed anew; `late`: versions that came after their window had closed.
    """

    order: int
    state: State
    word: str
    since: datetime | None = None
    rows: int | None = None
    lsn: str | None = None
    why: str | None = None
    shows_seconds: float | None = None
    how: str | None = None
    groups_per_minute: float | None = None
    late: int | None = None
    tables: Sequence[str] = ()
    holders: Sequence[str] = ()
    verified_at: datetime | None = None
    verdict: str | None = None
    day: Sequence[float] = ()


class Letters(StatusValue, frozen=True, kw_only=True):
    """Messages of one table that were not applied, for one reason; no value of them."""

    table: str
    reason: str
    keys: int
    messages: int
    waiting: int = 0
    oldest_at: datetime | None = None
    first: str | None = None


class TableVerdict(StatusValue, frozen=True, kw_only=True):
    """What is known of one table of a follower: when it was `tried` last, and compared `at` last, if ever.

    `keys`: that differed; `moved`: that could not be compared, since they had changed meanwhile. `why`: it could not
    be compared when it was tried last. `since`: when it was tried first, as long as it never was compared.
    """

    tried: datetime
    at: datetime | None = None
    since: datetime | None = None
    verdict: str = "not compared"
    rows: int = 0
    keys: int = 0
    moved: int = 0
    why: str | None = None

    @property
    def waits_since(self) -> datetime:
        """When it was compared last; of one that never was, since when that is tried."""
        return self.at or self.since or self.tried


class Verification(StatusValue, frozen=True, kw_only=True):
    """The newest verification of a follower, or of the views. `of`: the tables that it holds.

    `differences`: tables that differ, in `keys`. `oldest_at`: when the table was compared that has waited longest,
    or was tried first without success; None while one never was tried. `every_seconds`: how often each table is to
    be, if a rolling verification runs.
    """

    at: datetime
    verdict: str
    lsn: str | None = None
    seconds: float | None = None
    tables: int = 0
    of: int = 0
    rows: int | None = None
    differences: int = 0
    keys: int = 0
    moved: int = 0
    oldest_at: datetime | None = None
    every_seconds: float | None = None
    by_table: Mapping[str, TableVerdict] = {}


class FileCounts(StatusValue, frozen=True, kw_only=True):
    """What the lake's tables have as files. `dead_row_ratio`: rows that are deleted and still stored, of all."""

    files: int
    small_files: int
    bytes: int
    dead_row_ratio: float = 0.0


class Writes(StatusValue, frozen=True, kw_only=True):
    """What the lake writes in an hour at the present rate. `requests`: of an object store."""

    commits: int
    files: int
    bytes: int
    requests: int | None = None


def to_time(seconds: float) -> datetime:
    """A time of the document: whole seconds in UTC, from seconds since 1970."""
    return datetime.fromtimestamp(int(seconds), UTC)


def to_known_time(seconds: float | None) -> datetime | None:
    """The same, where it is known."""
    return None if seconds is None else to_time(seconds)
