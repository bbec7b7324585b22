"""Begins computations of whole views in threads of their own, and makes their results the views' content."""

from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import SparkSession

from cdc.core.table import TableName
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.load import load_copy
from cdc.sinks.lake.table.pinned_table import PinnedTable
from cdc.views.compiled import CompiledView
from cdc.views.small import are_small
from cdc.views.spark.whole import ViewFiles, WholeComputation
from cdc.views.store import ViewStore, bookmark_at
from cdc.views.upkeep.computation import Computation
from cdc.views.upkeep.computing_threads import ComputingThreads


class WholeViews:
    """Computes whole views in these threads. `small_rows`: of a view's tables, if Spark does not read them."""

    def __init__(
        self,
        spark: SparkSession,
        store: ViewStore,
        threads: ComputingThreads,
        say: Callable[[str], None],
        small_rows: int,
    ) -> None:
        self._spark = spark
        self._store = store
        self._threads = threads
        self._say = say
        self._small_rows = small_rows

    def begin(
        self,
        view: CompiledView,
        cut: Cut,
        tables: Mapping[TableName, PinnedTable],
        present: PinnedTable | None,
        *,
        is_urgent: bool,
    ) -> Computation | None:
        """Begin to compute a view over its tables at a cut; None while no thread is free.

        `present`: its own rows, None to fill it. One that `is_urgent` waits for a thread.
        """
        is_large = not are_small(view, tables, self._small_rows)
        while not self._threads.has_room(is_large=is_large):
            if not is_urgent:
                return None
            self._threads.wait_for_any()
        if is_large and present is None:
            rows = sum(table.row_count for table in tables.values())
            self._say(f"view {view.definition.name}: computed from {rows:,} rows, beside the other views")
        whole = WholeComputation(self._spark, self._store.lake, cut, tables, self._small_rows)
        running = self._threads.start(partial(whole.compute, view, present), is_large=is_large)
        return Computation(view, cut, tables, present, running, partial(self._threads.cancel, running))

    def load(self, made: ViewFiles, computation: Computation) -> None:
        """Make the files of a computation the content of its view; of one that is filled, as another table."""
        definition = computation.compiled.definition
        of_source = next(iter(computation.tables.values())).configuration
        bookmark, properties = bookmark_at(computation.cut, of_source), definition.as_properties()
        is_filled = computation.present is None
        load_copy(self._store.lake, made.table, made.files, bookmark, anew=is_filled, properties=properties)
        self._store.tables.forget([definition.name])
