"""Tables and views at one cut: the versions that any reader of Delta reads together."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from cdc.core.errors import ConfigurationError, HistoryLostError, PreconditionError
from cdc.core.position import Lsn, format_lsn, parse_lsn
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.feed.frames import open_frame
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cut, Cuts

At = str | datetime | None
"""An LSN as Postgres writes it (`0/16B3748`), a time, or None for now."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A Delta table at a cut. `path`: its folder, or its place in an object store."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class LakeCut:
    """All tables and views of a pipeline at one moment of the source.

    `lsn`: of the last transaction in it, `committed_at`: its time. `tables`: by `schema.table`.
    """

    lsn: str
    committed_at: datetime
    tables: Mapping[str, TableVersion]


class CutFrames(Mapping[str, DataFrame]):
    """The tables and views of one cut as DataFrames, by `schema.table`."""

    def __init__(self, spark: SparkSession, lake: Lake, cut: LakeCut) -> None:
        self._spark, self._lake = spark, lake
        self.cut = cut

    def __getitem__(self, name: str) -> DataFrame:
        table = self.cut.tables[name]
        return open_frame(self._spark, self._lake, TableName.parse(name), table.version)

    def __iter__(self) -> Iterator[str]:
        return iter(self.cut.tables)

    def __len__(self) -> int:
        return len(self.cut.tables)


def find_cut(pipeline: Pipeline, names: Collection[str] = (), at: At = None) -> LakeCut:
    """The newest cut at or before a moment, with these tables and views, or with all of them.

    The views follow the tables, so a cut without a view is a little newer.

    Raises ConfigurationError for a name that is neither a table nor a view, or for a text that is no LSN;
    PreconditionError while there is no cut or it lacks one of them; HistoryLostError when the moment is older than the
    lake's history.
    """
    lake, has_views = pipeline.lake, bool({*(names or pipeline.settings.views)} & {*pipeline.settings.views})
    cut = _find(pipeline.views.cuts if has_views else pipeline.table_cuts, at)
    _check_names(pipeline, names, cut)
    tables = {name: _locate(lake, cut, name) for name in names or sorted(cut.versions)}
    return LakeCut(format_lsn(cut.position.lsn), datetime.fromtimestamp(cut.committed_ms / 1000, UTC), tables)


def _find(cuts: Cuts, at: At) -> Cut:
    newest = cuts.last()
    if newest is None:
        raise PreconditionError("there is no cut yet", "run `cdc bootstrap` first")
    if at is None:
        return newest
    found = cuts.find_newest(time=at) if isinstance(at, datetime) else cuts.find_newest(lsn=parse_moment(at))
    if found is None:
        raise HistoryLostError(
            f"the lake has no cut at or before {at}: its first one is newer, or retention_hours has passed",
            "read a later moment",
        )
    return found


def parse_moment(at: str) -> Lsn:
    """An LSN that a program names; raises ConfigurationError for another text."""
    try:
        return parse_lsn(at)
    except ValueError:
        what = f"{at!r} is neither an LSN nor a time"
        raise ConfigurationError(what, "an LSN is written as 0/16B3748; a time is a datetime") from None


def _check_names(pipeline: Pipeline, names: Collection[str], cut: Cut) -> None:
    for name in names:
        if name in cut.versions:
            continue
        if name in pipeline.settings.views:
            raise PreconditionError(f"the cut has no view {name}: it is not filled yet, or stopped", "see `cdc status`")
        raise ConfigurationError(f"the cut has no table or view {name}", f"it has {', '.join(sorted(cut.versions))}")


def _locate(lake: Lake, cut: Cut, name: str) -> TableVersion:
    return TableVersion(lake.folder(TableName.parse(name)), cut.versions[name])
