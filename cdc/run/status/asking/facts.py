"""What one look has found, part by part, before anybody judges it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cdc.columns.netting.ends import Ends, to_columns
from cdc.connect.capture.connector_state import ConnectorState
from cdc.connect.source.slots.slot_health import SourceLook
from cdc.core.errors import CdcError
from cdc.core.position import Position
from cdc.core.table import TableName
from cdc.core.table_state import TableState
from cdc.run.health.result import Failing
from cdc.run.status.asking.questions import NOTHING, LastAnswer
from cdc.run.status.stream_report import CatalogReport, CopyReport, RestartReport, StreamReport
from cdc.run.status.things import Letters, Level, Verification, Writes
from cdc.run.views.kept_views import ViewDescription
from cdc.sinks.lake.metadata.cuts import Cut

LOST: Final = "capture.lost"
"""The key of the finding that source and log do not lead on from the lake."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong, as an error with its remedy.

    `key`: stable, `table.stopped:public.orders`. `headline`: the short form, where the error has more than that.
    `is_failure`: `cdc status` ends with the error's exit code; else it is worth knowing only.
    """

    key: str
    level: Level
    error: CdcError
    headline: str = ""
    hurts: str = ""
    since: float | None = None
    verb: str | None = None
    is_failure: bool = True

    @property
    def kind(self) -> str:
        """What the problem is about: the first word of the key."""
        return self.key.partition(":")[0].partition(".")[0]

    @property
    def name(self) -> str:
        return self.key.partition(":")[2]


@dataclass(frozen=True, slots=True)
class SourceChecks:
    """What was checked in the source now and then. `notes`: what is as it has to be."""

    notes: Sequence[str] = ()
    findings: Sequence[Trouble] = ()


@dataclass(frozen=True, slots=True)
class CaptureLook:
    """The connector; `failing`: why it does not run, or that nothing moves.

    `silent`: Kafka Connect does not answer; `silent_since`: in seconds since 1970, where the last looks say it.
    """

    connector: ConnectorState | None = None
    silent: CdcError | None = None
    failing: Failing | None = None
    silent_since: float | None = None

    @property
    def has_failed(self) -> bool:
        return self.connector is not None and self.connector.failure is not None


@dataclass(frozen=True, slots=True)
class LogLook:
    """The ENDs that some follower may lack, and those of the last minutes.

    `newest`: of all, as position and time of its commit in seconds since 1970. `changed_at`: by table, the newest
    commit that was seen. `hop_seconds`: the median time of the newest commits until they were in the log.
    """

    ends: Ends = field(default_factory=lambda: to_columns(()))
    newest: Position | None = None
    newest_at: float | None = None
    changed_at: Mapping[str, float] = field(default_factory=dict)
    hop_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TablesLook:
    """The lake's tables, and what is wrong with them. `holders`: by table, the followers that hold it."""

    tables: Sequence[TableName] = ()
    states: Mapping[str, TableState] = field(default_factory=dict)
    holders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    held: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By table with blocked keys: their number, and that of its letters."""
    letters: Mapping[str, Letters] = field(default_factory=dict)
    findings: Sequence[Trouble] = ()


@dataclass(frozen=True, slots=True)
class FilesLook:
    """What the lake's tables have as files. `dead_rows`: rows that are deleted and still stored."""

    files: int = 0
    small_files: int = 0
    bytes: int = 0
    rows: int = 0
    dead_rows: int = 0
    writes: Writes | None = None
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    """Of the file systems of this machine, by what is kept there."""


@dataclass(frozen=True, slots=True)
class FollowerLook:
    """A follower behind the lake, or the lake: its position, None before its first."""

    position: Position | None = None


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows by table, None where they are not known. `not_counted`: the tables that only an exact count reads."""

    rows: Mapping[str, int | None] = field(default_factory=dict)
    not_counted: Sequence[str] = ()
    findings: Sequence[Trouble] = ()


@dataclass(frozen=True, slots=True)
class StreamLook:
    """What this machine knows of a follower's stream.

    `is_followed`: a process follows it. `problem`: what it waits for. `end`: what ended the last process. `since`: when
    problem or end were noted, in seconds since 1970. `report`: what the stream has told of itself.
    """

    is_followed: bool = False
    problem: CdcError | None = None
    end: CdcError | None = None
    since: float | None = None
    report: StreamReport | None = None


@dataclass(frozen=True, slots=True)
class ViewsLook:
    """The views; `cut`: the newest one that names views."""

    views: Sequence[ViewDescription] = ()
    cut: Cut | None = None
    findings: Sequence[Trouble] = ()


@dataclass(frozen=True, slots=True)
class FileLook:
    """The configuration file: its name, whether it equals what runs, in words, and what is wrong if it does not."""

    name: str | None = None
    state: str | None = None
    error: CdcError | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All answers of one look. `now`: seconds since 1970 by this machine's clock."""

    now: float
    source: LastAnswer[SourceLook] = NOTHING
    checks: LastAnswer[SourceChecks] = NOTHING
    continuity: LastAnswer[SourceChecks] = NOTHING
    capture: LastAnswer[CaptureLook] = NOTHING
    log: LastAnswer[LogLook] = NOTHING
    lake: LastAnswer[FollowerLook] = NOTHING
    tables: LastAnswer[TablesLook] = NOTHING
    files: LastAnswer[FilesLook] = NOTHING
    fed: Mapping[str, LastAnswer[FollowerLook]] = field(default_factory=dict)
    rows: Mapping[str, LastAnswer[RowCounts]] = field(default_factory=dict)
    """By follower, and of SOURCE."""
    streams: Mapping[str, StreamLook] = field(default_factory=dict)
    """By follower, and of the views."""
    views: LastAnswer[ViewsLook] = NOTHING
    copies: Mapping[str, CopyReport] = field(default_factory=dict)
    verifications: Mapping[str, Verification] = field(default_factory=dict)
    file: FileLook = FileLook()
    log_bytes: LastAnswer[Mapping[str, int]] = NOTHING
    catalog: CatalogReport | None = None
    half_teardown: CdcError | None = None
    dropped: CdcError | None = None
    """A slot that `cdc follow` has dropped, as long as the capture has not begun anew."""
    restarts: RestartReport | None = None


SOURCE: Final = "source"
"""The name of the source among the row counts: no follower may have it, since it is the name of a part."""
