"""Compares histories with their tables: what goes on at the end of a history is the table, at the same cut."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from cdc.columns.rows.compare import Comparison, compare, hash_side
from cdc.columns.rows.digest import digest_of_copy
from cdc.columns.table_copy import FrameCopy
from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.read.histories import select_as_of
from cdc.run.spark.errors import translate_errors
from cdc.run.verify.bulkhead import compare_alone
from cdc.run.verify.report import Verdict
from cdc.sinks.lake import layout
from cdc.sinks.lake.feed.digest import digest_of_version
from cdc.sinks.lake.feed.standing import find_standing
from cdc.sinks.lake.history.epochs import list_epochs
from cdc.sinks.lake.history.facts import HistoryMoment, TrackedShape
from cdc.sinks.lake.history.shape import history_name
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.spark.frames import open_tables, read_table


def compare_histories(
    pipeline: Pipeline, max_keys: int, only: Collection[TableName] = ()
) -> Mapping[TableName, Verdict]:
    """Compare the histories of these tables, or all, by the names of their present epochs.

    At most `max_keys` keys of each.
    """
    lake = pipeline.lake
    cut = pipeline.table_cuts.last()
    wanted = [name for name in pipeline.settings.histories if not only or name in only]
    verdicts = dict[TableName, Verdict]()
    for name in wanted:
        epochs = list_epochs(lake, name, cut)
        present = epochs[-1].name if epochs else history_name(name)
        compare_one = partial(_compare, pipeline, max_keys, (name, present), cut)
        verdicts[present] = replace(compare_alone(str(present), compare_one), history_of=name)
    return verdicts


def _compare(pipeline: Pipeline, max_keys: int, names: tuple[TableName, TableName], cut: Cut | None) -> Verdict:
    name, history = names
    if cut is None or str(history) not in cut.versions or str(name) not in cut.versions:
        return Verdict(None, stopped=PreconditionError(f"{history} is in no cut now", "see `cdc status`"))
    lake, spark = pipeline.lake, pipeline.spark
    table = layout.require_table(lake, name, cut.versions[str(name)])
    with translate_errors(f"the comparison of {history}"):
        stands = find_standing(lake, history, cut)
        kept = layout.require_table(lake, history, stands.versions[str(history)])
        own, opened = open_tables(spark, lake, stands, [kept])
        going = select_as_of(opened[kept.name], TrackedShape.of(table, HistoryMoment(0, 0)))
        read = partial(read_table, own, lake, cut, name)
        ours = digest_of_version(lake, table, cut.versions[str(name)], read)
        theirs = digest_of_copy(FrameCopy(going, table), table)
        if ours == theirs:
            return Verdict(Comparison(ours.rows, theirs.rows))
        return Verdict(_compare_rows(going, read(), table, max_keys))


def _compare_rows(ours: DataFrame, theirs: DataFrame, table: Table, max_keys: int) -> Comparison:
    left, right = hash_side(theirs, table), hash_side(ours, table)
    try:
        return compare(left, right, table, max_keys)
    finally:
        left.release()
        right.release()
