"""Compares histories with their tables: what goes on at the end of a history is the table, at the same cut."""

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, SparkSession

from cdc.columns.rows.compare import Comparison, compare, hash_side
from cdc.config.settings import PipelineSettings
from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import lake_of
from cdc.run.read.histories import select_as_of
from cdc.run.spark.errors import translate_errors
from cdc.run.verify.report import Verdict
from cdc.sinks.lake import layout
from cdc.sinks.lake.history.shape import history_name
from cdc.sinks.lake.metadata.cuts import Cut, Cuts
from cdc.views.spark.frames import read_table


def compare_histories(
    settings: PipelineSettings, spark: SparkSession, max_keys: int, only: Collection[TableName] = ()
) -> Mapping[TableName, Verdict]:
    """Compare the histories of these tables, or all; by the histories' own names. At most `max_keys` keys of each."""
    cut = Cuts(lake_of(settings)).last()
    wanted = [name for name in settings.histories if not only or name in only]
    return {history_name(name): _compare(settings, spark, max_keys, name, cut) for name in wanted}


def _compare(
    settings: PipelineSettings, spark: SparkSession, max_keys: int, name: TableName, cut: Cut | None
) -> Verdict:
    history = history_name(name)
    if cut is None or str(history) not in cut.versions or str(name) not in cut.versions:
        return Verdict(None, stopped=PreconditionError(f"{history} is in no cut now", "see `cdc status`"))
    lake = lake_of(settings)
    table = layout.require_table(lake, name, cut.versions[str(name)])
    with translate_errors(f"the comparison of {history}"):
        going = select_as_of(read_table(spark, lake, cut, history), table)
        return Verdict(_compare_rows(going, read_table(spark, lake, cut, name), table, max_keys))


def _compare_rows(ours: DataFrame, theirs: DataFrame, table: Table, max_keys: int) -> Comparison:
    left, right = hash_side(theirs, table), hash_side(ours, table)
    try:
        return compare(left, right, table, max_keys)
    finally:
        left.release()
        right.release()
