"""Finds the keys that differ between a source and what follows it, all of them up to a bound, with their types."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.columns.arrays import Mask
from cdc.columns.names import within
from cdc.columns.rows.compare import find_differences, row_hashes
from cdc.columns.rows.digest import Digest
from cdc.columns.rows.held import Held, digest_copy, rows_as_held
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.spark_tasks import require_spark
from cdc.columns.types.arrow_types import conform
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.table import Table, TableName
from cdc.run.repair.source_rows import check_keys
from cdc.run.spark.errors import translate_errors
from cdc.run.verify.pinned_source import FollowerReader, PinnedSource
from cdc.sinks.lake.feed.keyed_rows import key_schema
from cdc.snapshots.read import SourceRows

Frames = Callable[[], tuple[DataFrame, DataFrame]]
"""Both sides of a comparison."""


def list_keys(table: Table, compared: Table, frames: Frames, most: int, what: str) -> pa.Table:
    """The keys by which two sides differ, in the table's types; `compared`: the table as both sides have it.

    Raises PreconditionError for more than `most`.
    """
    ours, theirs = frames()
    found = find_differences(row_hashes(ours, compared), row_hashes(theirs, compared))
    # by place: a follower may have other names for them
    names = zip(compared.key, table.key, strict=True)
    keyed = found.select(*(within("key", theirs).alias(own) for theirs, own in names))
    keys: pa.Table = conform(keyed.limit(most + 1).toArrow(), key_schema(table)).drop_null()
    if len(keys) > most:
        raise too_many(table.name, f"of {table.name} differ in {what}", most)
    return keys


def too_many(name: TableName, what: str, most: int) -> PreconditionError:
    return PreconditionError(
        f"more than {most:,} keys {what}: a repair of so many costs more than a copy",
        f"`cdc bootstrap --again {name}` copies it; or say how many with --most",
    )


def join_keys(parts: Sequence[pa.Table], table: Table) -> pa.Table:
    """Each key once."""
    keys = pa.concat_tables([key_schema(table).empty_table(), *parts])
    bits = row_bits(keys, table)
    order = bits.order()
    first: Mask = bits.take(order).begins()
    return keys.take(pa.array(order[first]))


@dataclass(frozen=True, slots=True)
class TableFinder:
    """Compares tables of a pinned source with followers. `failed`: tables that cannot be repaired so, and why."""

    pinned: PinnedSource
    most: int
    failed: dict[TableName, CdcError] = field(default_factory=dict)
    _digests: dict[tuple[TableName, str], Digest] = field(default_factory=dict)

    def find(self, table: Table, readers: Mapping[str, FollowerReader]) -> pa.Table:
        """The keys of a table that differ in any of these followers; none if it cannot be repaired."""
        parts = list[pa.Table]()
        for name, reader in readers.items():
            if (stop := reader.stops().get(table.name)) is not None:
                self.failed[table.name] = PreconditionError(stop.what, stop.remedy)
                break
            with translate_errors(f"the comparison of {table.name}"):
                try:
                    parts.append(self._find(table, name, reader))
                except PreconditionError as refusal:
                    self.failed[table.name] = refusal
                    break
        return join_keys([] if table.name in self.failed else parts, table)

    def _find(self, table: Table, name: str, reader: FollowerReader) -> pa.Table:
        held = reader.held(table)
        compared = held.table if held else table
        source = self._open(table)
        if self._digest(source, table, held) == reader.digest(table):
            return key_schema(table).empty_table()
        if refusal := check_keys(table):
            raise refusal

        def frames() -> tuple[DataFrame, DataFrame]:
            return rows_as_held(source, table, held) if held else source.frame(), reader.rows(table)

        return list_keys(table, compared, frames, self.most, name)

    def _open(self, table: Table) -> SourceRows:
        pinned, spark = self.pinned, require_spark(self.pinned.spark)
        return SourceRows.at(spark, pinned.snapshot_source, table, pinned.keeper.pages[table.name])

    def _digest(self, source: SourceRows, table: Table, held: Held | None) -> Digest:
        asked = table.name, held.name if held else ""
        if asked not in self._digests:
            self._digests[asked] = digest_copy(source, table, held)
        return self._digests[asked]
