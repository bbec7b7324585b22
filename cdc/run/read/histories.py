"""A table as it was, by its history: every committed version, and which of them went on at a moment."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc.columns.names import quoted
from cdc.core.errors import ConfigurationError, HistoryLostError, PreconditionError
from cdc.core.position import Lsn, format_lsn
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.read.cuts import parse_moment
from cdc.sinks.lake.feed.frames import open_frame
from cdc.sinks.lake.history.epochs import Epoch, OpenEpoch, list_epochs
from cdc.sinks.lake.history.facts import HistoryMoment, TrackedShape
from cdc.sinks.lake.history.shape import CHANGE, COMMITTED_AT, ENDS, LSN, SEQUENCE
from cdc.sinks.lake.metadata.cuts import Cuts

_ROW = "row"


def read_as_of(pipeline: Pipeline, name: TableName, at: str | datetime) -> DataFrame:
    """A table as it was at an LSN (`0/A6D96F0`) or at a time, by its history in the newest cut.

    With the columns that it had then. At a time: with all that was committed by then. Raises ConfigurationError for a
    table without a history, PreconditionError while the lake has none, HistoryLostError when the history does not know
    that moment.
    """
    if name not in pipeline.settings.histories:
        raise ConfigurationError(f"no history of {name} is kept", "name it in `history:` of cdc.yaml")
    lake, moment = pipeline.lake, at if isinstance(at, datetime) else parse_moment(at)
    cuts = pipeline.table_cuts
    epoch = find_epoch(list_epochs(lake, name, cuts.last()), name, moment)
    shape = epoch.facts.find_shape(moment)
    version = _find_version(cuts, str(epoch.table.name), moment)
    frame = open_frame(pipeline.spark, lake, epoch.table.name, version)
    return select_as_of(frame, shape, moment)


def find_epoch(epochs: Sequence[Epoch], name: TableName, at: Lsn | datetime) -> OpenEpoch:
    """The epoch of a table's history that has this moment.

    Raises PreconditionError when none has begun, HistoryLostError when the one that has it cannot be read, or the
    moment lies between two.
    """
    if not epochs:
        raise PreconditionError(f"the history of {name} has not begun", "run `cdc bootstrap`, then `cdc follow`")
    for epoch in reversed(epochs):
        if epoch.opened is None:
            # which moments it has is not known
            raise HistoryLostError(f"{epoch.name} cannot be read: {epoch.why}", "put it back as it was")
        epoch.opened.facts.check_known(at)
        if not epoch.opened.facts.begins.is_after(at):
            return epoch.opened
    raise HistoryLostError(f"the history of {name} begins at {_first(epochs)}", "ask for a later moment")


def _first(epochs: Sequence[Epoch]) -> str:
    return str(epochs[0].opened.facts.begins) if epochs[0].opened else "a later moment"


def _find_version(cuts: Cuts, history: str, at: Lsn | datetime) -> int:
    """The version of a history that has all up to a moment. One in no cut now is kept no further than its last one."""
    last, named = cuts.last(), cuts.find_last_with(history)
    if named is None:
        raise PreconditionError(f"{history} is in no cut yet", "run `cdc follow`")
    is_present = last is not None and history in last.versions
    if not is_present and HistoryMoment(named.position.lsn, named.committed_ms).is_before(at):
        known = format_lsn(named.position.lsn)
        raise PreconditionError(f"{history} is in no cut now, and has nothing after {known}", "see `cdc status`")
    return named.versions[history]


def select_as_of(history: DataFrame, shape: TrackedShape, at: Lsn | datetime | None = None) -> DataFrame:
    """The rows that go on at a moment, or at the end, by the rows of a history, in the shape of then."""
    if at is not None:
        history = history.where(F.col(COMMITTED_AT) <= at if isinstance(at, datetime) else F.col(LSN) <= at)
    row = F.struct(CHANGE, *_columns(shape.columns))
    last = F.max_by(row, SEQUENCE).alias(_ROW)
    newest = history.groupBy(*(F.col(quoted(column)).alias(f"key {at}") for at, column in enumerate(shape.key))).agg(
        last
    )
    going = newest.where(~F.col(f"{_ROW}.{CHANGE}").isin(*ENDS))
    return going.select(*(F.col(f"{_ROW}.{quoted(column)}") for column in shape.columns))


def _columns(names: Iterable[str]) -> list[Column]:
    return [F.col(quoted(column)) for column in names]
