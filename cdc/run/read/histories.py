"""A table as it was, by its history: every committed version, and which of them went on at a moment."""

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.names import quoted
from cdc.config.settings import PipelineSettings
from cdc.core.errors import ConfigurationError
from cdc.core.position import Lsn
from cdc.core.table import Table, TableName
from cdc.run.pipeline import lake_of
from cdc.run.read.cuts import find_cut, parse_moment
from cdc.sinks.lake import layout
from cdc.sinks.lake.history.shape import CHANGE, COMMITTED_AT, ENDS, LSN, SEQUENCE, history_name

_ROW = "row"


def read_as_of(spark: SparkSession, settings: PipelineSettings, name: TableName, at: str | datetime) -> DataFrame:
    """A table as it was at an LSN (`0/A6D96F0`) or at a time, by its history in the newest cut.

    At a time: with all that was committed by then. Raises ConfigurationError for a table without a history,
    PreconditionError while the lake has none.
    """
    if name not in settings.histories:
        raise ConfigurationError(f"no history of {name} is kept", "name it in `history:` of cdc.yaml")
    history = history_name(name)
    found = find_cut(settings, [str(history)]).tables[str(history)]
    table = layout.require_table(lake_of(settings), name)
    frame = spark.read.format("delta").option("versionAsOf", found.version).load(found.path)
    return select_as_of(frame, table, at if isinstance(at, datetime) else parse_moment(at))


def select_as_of(history: DataFrame, table: Table, at: Lsn | datetime | None = None) -> DataFrame:
    """The rows of `table` that go on at a moment, or at the end, by the rows of its history."""
    if at is not None:
        history = history.where(F.col(COMMITTED_AT) <= at if isinstance(at, datetime) else F.col(LSN) <= at)
    columns = [F.col(quoted(column)) for column in table.column_names]
    row = F.struct(CHANGE, *columns)
    last = F.max_by(row, SEQUENCE).alias(_ROW)
    newest = history.groupBy(*(F.col(quoted(column)).alias(f"key {at}") for at, column in enumerate(table.key))).agg(
        last
    )
    going = newest.where(~F.col(f"{_ROW}.{CHANGE}").isin(*ENDS))
    return going.select(*(F.col(f"{_ROW}.{quoted(column)}") for column in table.column_names))
