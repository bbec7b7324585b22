"""The whole of `cdc.yaml`: its blocks, names derived from the pipeline's name, and checks between blocks."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from cdc.config.catalog_settings import CatalogSettings
from cdc.config.erase_settings import EraseSettings
from cdc.config.findings.history_findings import find_wrong_histories
from cdc.config.findings.index_findings import find_foreign_indexes
from cdc.config.findings.table_findings import A_PATTERN, entry, find_unnamed, find_wrong_policies, find_wrong_tables
from cdc.config.findings.topic_findings import find_taken_topics
from cdc.config.metrics_settings import MetricsSettings
from cdc.config.spark_settings import SparkSettings
from cdc.config.verify_settings import VerifySettings
from cdc.connect.settings import CaptureSettings, SourceSettings, is_host_supported
from cdc.connect.source_login import find_unreadable_key
from cdc.core.selection import Selection, is_pattern
from cdc.core.settings import Finding, Settings, finding_error, findings_error
from cdc.core.table import Table, TableName
from cdc.log.settings import LogSettings
from cdc.sinks.lake.history.shape import find_tracked, is_history
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.latest.settings import LatestSettings
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.percolator.settings import PercolatorSettings
from cdc.sinks.registry import FollowerSettings, find_refusal
from cdc.views.definition import ViewDefinition
from cdc.views.settings import ViewSettings

PIPELINE_NAME = r"^[a-z][a-z0-9_]{0,39}$"
VIEWS = "views"
"""The name under which `cdc follow` keeps the views up; no follower has it."""
FOLLOWER_NAME = r"^[a-z][a-z0-9_-]{0,39}$"
CAPTURE = "capture"
"""The name of the capture beside the followers, as `cdc pause` takes it; no follower has it."""
_TAKEN_NAMES = {VIEWS: "is the name of the views' own stream", CAPTURE: "is the name of the capture"}


class PipelineBlock(Settings):
    name: str = Field(pattern=PIPELINE_NAME)
    """The pipeline's name: topics, slot, publication, connector and indexes are named after it."""
    state: str = Field(default=".cdc", min_length=1)
    """The folder of the toolkit's own state; a relative path starts at the configuration file."""
    readable_by: Literal["owner", "group", "all"] = "owner"
    """Who may read the files that verbs write on this machine, such as those of the lake."""


class FollowSettings(Settings):
    trigger_seconds: float = Field(default=0.2, ge=0)
    """How often a follower looks for new transactions."""


class PipelineSettings(Settings):
    """The settings of one pipeline, with all default names filled in."""

    version: Literal[1]
    """The version of this file's format."""
    # before all that is named after it: pydantic validates fields in this order, and validators see those above them
    pipeline: PipelineBlock
    source: SourceSettings
    log: LogSettings
    connect: CaptureSettings
    followers: dict[Annotated[str, Field(pattern=FOLLOWER_NAME)], FollowerSettings] = Field(min_length=1)
    """The copies to keep, by names of your choice; exactly one is of kind delta."""
    history: list[str] = Field(default_factory=list)
    """Tables of which every committed version is kept, as `schema.table`: in `schema.table_history`, beside them."""
    views: dict[str, ViewSettings] = Field(default_factory=dict)
    """What is derived from the tables and kept up in the lake, by names as tables have them: `schema.view`."""
    spark: SparkSettings = SparkSettings()
    follow: FollowSettings = FollowSettings()
    metrics: MetricsSettings = MetricsSettings()
    erase: EraseSettings = EraseSettings()
    verify: VerifySettings = VerifySettings()
    catalog: CatalogSettings | None = None
    """Where tables and views of the lake are registered, with the comments of Postgres; left out, nowhere."""

    @property
    def digest(self) -> str:
        """Equal for equal settings, without a secret in it: whether a process runs with what the file says."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    @property
    def selection(self) -> Selection:
        """The tables to follow."""
        return self.source.selection

    @property
    def delta(self) -> tuple[str, DeltaSettings]:
        """The one follower of kind delta, with its name."""
        # validated: there is exactly one
        return next((name, f) for name, f in self.followers.items() if isinstance(f, DeltaSettings))

    @property
    def stream_names(self) -> list[str]:
        """What is followed by a stream of its own: each follower, and VIEWS if there are any."""
        return [*self.followers, *([VIEWS] if self.views else [])]

    @property
    def view_definitions(self) -> list[ViewDefinition]:
        """The views as they are written, in the file's order."""
        return [ViewDefinition.of(name, view.sql, view.key, view.final_after) for name, view in self.views.items()]

    @property
    def histories(self) -> list[TableName]:
        """The tables of which every version is kept."""
        return [TableName.parse(text) for text in self.history]

    def is_view(self, name: TableName) -> bool:
        return name in map(TableName.parse, self.views)

    def holds(self, follower: str, table: TableName) -> bool:
        """Does the follower hold this table or view, by its name?"""
        settings = self.followers[follower]
        # the lake holds every table, since the others are fed from it; a view is only where it is named
        if self.is_view(table) or find_tracked(table, self.histories):
            return not isinstance(settings, DeltaSettings) and settings.names(table)
        return isinstance(settings, DeltaSettings) or settings.holds(table)

    def holds_views(self, follower: str) -> bool:
        """Does the follower hold a view?"""
        return any(self.holds(follower, TableName.parse(name)) for name in self.views)

    def holds_table(self, follower: str, table: Table) -> bool:
        """Does the follower hold this table?

        A table that only a pattern names counts as left out if this kind of follower cannot hold it. So does a history
        that the file names no more, and the lake's cuts name until the next one.
        """
        if is_history(table) and not find_tracked(table.name, self.histories):
            return False
        is_named = table.name in self.selection.names or self.is_view(table.name)
        fits = is_named or find_refusal(self.followers[follower], table) is None
        return self.holds(follower, table.name) and fits

    def leave_out_of(self, follower: str) -> Sequence[str]:
        """The tables that the user has left out of the follower."""
        settings = self.followers[follower]
        return () if isinstance(settings, DeltaSettings) else settings.leave_out

    def resolve_paths(self, folder: Path) -> Self:
        """The same settings, with the relative paths of state and lake made absolute from `folder`."""
        pipeline = self.pipeline.model_copy(update={"state": _anchor(folder, self.pipeline.state)})
        followers = {
            name: f.model_copy(update={"path": _anchor(folder, f.path)}) if isinstance(f, DeltaSettings) else f
            for name, f in self.followers.items()
        }
        return self.model_copy(update={"pipeline": pipeline, "followers": followers})

    @field_validator("source", mode="after")
    @classmethod
    def _complete_source(cls, source: SourceSettings, info: ValidationInfo) -> SourceSettings:
        _refuse([*find_wrong_tables(source.tables, source.heartbeat_schema), *find_wrong_policies(source)])
        name = _pipeline_name(info)
        names = {"slot": source.slot or f"cdc_{name}", "publication": source.publication or f"cdc_{name}"}
        tables = [entry(text.strip()) for text in source.tables]
        return source.model_copy(update={**names, "tables": tables})

    @field_validator("log", mode="after")
    @classmethod
    def _complete_log(cls, log: LogSettings, info: ValidationInfo) -> LogSettings:
        return log.model_copy(update={"prefix": log.prefix or _pipeline_name(info)})

    @field_validator("connect", mode="after")
    @classmethod
    def _complete_connect(cls, connect: CaptureSettings, info: ValidationInfo) -> CaptureSettings:
        source = info.data.get("source")
        key = source.sslkey if isinstance(source, SourceSettings) else None
        if key and (why := find_unreadable_key(key, connect.overrides)):
            raise finding_error((), f"cannot use source.sslkey: the file {why}")
        if isinstance(source, SourceSettings) and not is_host_supported(connect.source_host or source.decoding.host):
            raise finding_error(
                ("source_host",), "is required, a name of letters, digits, '_', '-' and '.': Debezium takes no other"
            )
        return connect.model_copy(update={"connector": connect.connector or f"cdc-{_pipeline_name(info)}"})

    @field_validator("followers", mode="after")
    @classmethod
    def _complete_followers(
        cls, followers: dict[str, FollowerSettings], info: ValidationInfo
    ) -> dict[str, FollowerSettings]:
        complete = {name: _with_prefix(f, name, _pipeline_name(info)) for name, f in followers.items()}
        source = info.data.get("source")
        unnamed = _leave_out_findings(complete, source.selection) if isinstance(source, SourceSettings) else []
        log = info.data.get("log")
        taken = find_taken_topics(complete, log) if isinstance(log, LogSettings) else ()
        _refuse([*_follower_findings(complete), *unnamed, *taken])
        return complete

    @model_validator(mode="after")
    def _check_held(self) -> Self:
        views = [*map(TableName.parse, self.views)]
        _refuse([*find_foreign_indexes(self.followers, self.selection, views)])
        _refuse(
            [
                (("followers", name, *place), finding)
                for name, follower in self.followers.items()
                for place, text in ([] if isinstance(follower, DeltaSettings) else follower.named())
                if (finding := self._find_unknown(text))
            ]
        )
        return self

    def _find_unknown(self, text: str) -> str | None:
        """What is wrong with a table or view that a follower names."""
        if self.is_view(TableName.parse(text)) or not (why := find_unnamed(text, self.selection)):
            return None
        return f"{text} {why}" if why == A_PATTERN else f"{text} {why} and no view"

    @field_validator("history", mode="after")
    @classmethod
    def _complete_history(cls, history: list[str], info: ValidationInfo) -> list[str]:
        source, names = info.data.get("source"), [TableName.parse(text) for text in history]
        if isinstance(source, SourceSettings):
            _refuse(
                [
                    ((number,), f"{name} {why}")
                    for number, name in enumerate(names)
                    if (why := find_unnamed(str(name), source.selection))
                ]
            )
            _refuse(list(find_wrong_histories(names, source.selection)))
        return [str(name) for name in names]

    @field_validator("views", mode="after")
    @classmethod
    def _complete_views(cls, views: dict[str, ViewSettings], info: ValidationInfo) -> dict[str, ViewSettings]:
        complete = {str(TableName.parse(name)): view for name, view in views.items()}
        source, followers = info.data.get("source"), info.data.get("followers")
        if complete and isinstance(source, SourceSettings) and followers is not None:
            from cdc.config.findings.view_findings import add_late_views, find_misnamed_views, find_wrong_views

            _refuse(find_misnamed_views(views, source))
            histories = [TableName.parse(text) for text in info.data.get("history", ())]
            _refuse(find_wrong_views(complete, source, histories))
            return add_late_views(complete)
        return complete


def _follower_findings(followers: dict[str, FollowerSettings]) -> list[Finding]:
    delta = [name for name, f in followers.items() if isinstance(f, DeltaSettings)]
    findings: list[Finding] = []
    if not delta:
        findings.append(((), "one of kind delta is needed: the others are fed from it"))
    findings += [((name,), f"a second one of kind delta, besides '{delta[0]}'") for name in delta[1:]]
    findings += [((name,), _TAKEN_NAMES[name]) for name in followers if name in _TAKEN_NAMES]
    return findings + [((name,), f"writes where '{other}' writes") for name, other in _clashes(followers)]


def _leave_out_findings(followers: dict[str, FollowerSettings], selection: Selection) -> list[Finding]:
    return [
        ((name, "leave_out"), f"{text} is none of source.tables, of which each is named here by itself")
        for name, follower in followers.items()
        for text in ([] if isinstance(follower, DeltaSettings) else follower.leave_out)
        if is_pattern(text) or TableName.parse(text) not in selection
    ]


def _clashes(followers: dict[str, FollowerSettings]) -> Iterable[tuple[str, str]]:
    """Find followers that would write to the same topics or indexes as an earlier one."""
    first: dict[tuple[str, ...], str] = {}
    for name, follower in followers.items():
        other = first.setdefault(_target(follower, name), name)
        if other != name:
            yield name, other


def _target(follower: FollowerSettings, name: str) -> tuple[str, ...]:
    """The target of a follower's writes, to compare with others."""
    if isinstance(follower, ClusterSettings):
        return ("search", follower.url.rstrip("/"), follower.prefix)
    # latest topics are named by the log's prefix and the table, without the follower: two always clash
    return ("latest",) if isinstance(follower, LatestSettings) else ("alone", name)


def _with_prefix(follower: FollowerSettings, name: str, pipeline: str) -> FollowerSettings:
    # latest topics have the log's prefix, the lake has a folder
    if not isinstance(follower, ClusterSettings) or follower.prefix:
        return follower
    # the pipeline's name alone is the search follower's
    prefix = f"{pipeline}-{name}" if isinstance(follower, PercolatorSettings) else pipeline
    return follower.model_copy(update={"prefix": prefix})


def _pipeline_name(info: ValidationInfo) -> str:
    """The pipeline's name; empty if its block is not valid, which makes the whole file invalid."""
    pipeline = info.data.get("pipeline")
    return pipeline.name if isinstance(pipeline, PipelineBlock) else ""


def _anchor(folder: Path, path: str) -> str:
    # a URL of an object store stays
    return path if re.match("[a-z][a-z0-9+.-]+:", path) else str(folder.resolve() / path)


def _refuse(findings: list[Finding]) -> None:
    if findings:
        raise findings_error(findings)
