"""Compares two tables: hashes of rows first, then the keys that differ, then their columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.columns.names import quoted
from cdc.columns.rows.row_fingerprints import identifying_columns
from cdc.core.table import Table

MISSING, EXTRA, DIFFERING, TWICE = "missing", "extra", "differing", "twice"


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key that differs between the sides: the kind of difference, and the differing columns."""

    key: dict[str, str | None]
    kind: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing a follower's table with the source's: counts of keys by kind, and some of the keys."""

    source_rows: int
    follower_rows: int
    missing: int = 0
    extra: int = 0
    differing: int = 0
    twice: int = 0
    keys: tuple[KeyDifference, ...] = field(default=())

    @property
    def different(self) -> int:
        """How many keys differ, in any way."""
        return self.missing + self.extra + self.differing + self.twice

    @property
    def equal(self) -> bool:
        return not self.different


def row_hashes(rows: DataFrame, table: Table) -> DataFrame:
    """Hash rows: `key` (a struct) and `digest` (long, xxhash64 of all columns and of their nulls).

    With the nulls hashed, (null, 1) and (1, null) differ. In a table without a key, `key` is the whole row.
    """
    key = F.struct(*(F.col(quoted(name)) for name in identifying_columns(table)))
    parts = [part for name in table.column_names for part in (F.col(quoted(name)).isNull(), F.col(quoted(name)))]
    return rows.select(key.alias("key"), F.xxhash64(*parts).alias("digest"))


def find_differences(source: DataFrame, follower: DataFrame) -> DataFrame:
    """From the `row_hashes` of both sides, find the keys that differ: columns `key` and `kind`."""
    theirs = follower.groupBy("key").agg(F.max("digest").alias("theirs"), F.count("*").alias("times"))
    ours = source.select(F.col("key").alias("source_key"), F.col("digest").alias("ours"))
    joined = ours.join(theirs, ours["source_key"] == theirs["key"], "full_outer")
    kind = (
        # the order matters: an extra key may be there twice, and the maximum of several digests proves nothing
        F.when(F.col("theirs").isNull(), MISSING)
        .when(F.col("ours").isNull(), EXTRA)
        .when(F.col("times") > 1, TWICE)
        .when(F.col("ours") != F.col("theirs"), DIFFERING)
    )
    return joined.select(F.coalesce("source_key", "key").alias("key"), kind.alias("kind")).where("kind IS NOT NULL")


def find_count_differences(source: DataFrame, follower: DataFrame) -> DataFrame:
    """From the `row_hashes` of a table without a key, find rows with other counts: columns `key`, `kind`, `rows`."""
    ours = source.groupBy("key").agg(F.count("*").alias("ours"))
    theirs = follower.groupBy(F.col("key").alias("their_key")).agg(F.count("*").alias("theirs"))
    more = F.coalesce("ours", F.lit(0)) - F.coalesce("theirs", F.lit(0))
    # null-safe: here the key is a whole row, and any of its columns may be null
    joined = ours.join(theirs, ours["key"].eqNullSafe(theirs["their_key"]), "full_outer").where(more != 0)
    kind = F.when(more > 0, MISSING).otherwise(EXTRA)
    return joined.select(F.coalesce("key", "their_key").alias("key"), kind.alias("kind"), F.abs(more).alias("rows"))


@dataclass(frozen=True, slots=True)
class Side:
    """A table's rows and their `row_hashes`, which Spark caches until `release`."""

    rows: DataFrame
    hashes: DataFrame

    def release(self) -> None:
        self.hashes.unpersist()


def hash_side(rows: DataFrame, table: Table) -> Side:
    """Hash one side of a comparison, once for all comparisons with it."""
    return Side(rows, row_hashes(rows, table).persist())


def compare(source: Side, follower: Side, table: Table, most: int) -> Comparison:
    """Compare two tables with the same columns, row by row; the result names at most `most` keys."""
    if not table.key:
        return _compare_counts(source, follower, most)
    # read twice below: counted by kind, then listed
    different = find_differences(source.hashes, follower.hashes).persist()
    # read more than once as well, and another time it might be other keys
    some = different.limit(most).persist()
    try:
        counts = {row["kind"]: row["count"] for row in different.groupBy("kind").count().collect()}
        keys = _list_keys(some, source.rows, follower.rows, table) if counts else []
        return Comparison(source.hashes.count(), follower.hashes.count(), **counts, keys=tuple(keys))
    finally:
        some.unpersist()
        different.unpersist()


def _compare_counts(source: Side, follower: Side, most: int) -> Comparison:
    found = find_count_differences(source.hashes, follower.hashes).persist()
    try:
        counts = {row["kind"]: row["rows"] for row in found.groupBy("kind").agg(F.sum("rows").alias("rows")).collect()}
        named = [KeyDifference(_texts(row["key"].asDict()), row["kind"]) for row in found.limit(most).collect()]
        return Comparison(source.hashes.count(), follower.hashes.count(), **counts, keys=tuple(named))
    finally:
        found.unpersist()


def _list_keys(found: DataFrame, source: DataFrame, follower: DataFrame, table: Table) -> Sequence[KeyDifference]:
    rows = find_columns(found, source, follower, table).collect()
    return [KeyDifference(_texts(row["key"].asDict()), row["kind"], tuple(row["columns"] or ())) for row in rows]


def find_columns(found: DataFrame, source: DataFrame, follower: DataFrame, table: Table) -> DataFrame:
    """Add to the few keys that were `found` the `columns` that differ: null unless there is one row on each side.

    Of a missing row every column differs, and of two rows of one key either may be meant.
    """
    wanted = found.select("key", "kind")
    # broadcast, so that both tables are read where they are: an outer join would send those instead
    keys = F.broadcast(wanted.where(F.col("kind") == DIFFERING).select(F.col("key").alias("wanted")))
    left, right = (
        keyed.join(keys, F.col(f"{name}_key") == F.col("wanted"), "left_semi")
        for name, keyed in (("l", _with_key(source, table, "l")), ("r", _with_key(follower, table, "r")))
    )
    differing = [
        F.when(~F.col(f"l_row.{quoted(name)}").eqNullSafe(F.col(f"r_row.{quoted(name)}")), F.lit(name))
        for name in table.column_names
    ]
    pairs = left.join(right, F.col("l_key") == F.col("r_key"))
    named = pairs.select("l_key", F.array_compact(F.array(*differing)).alias("columns"))
    return wanted.join(named, F.col("key") == F.col("l_key"), "left").select("key", "kind", "columns")


def _with_key(rows: DataFrame, table: Table, name: str) -> DataFrame:
    key = F.struct(*(F.col(quoted(column)) for column in table.key))
    return rows.select(key.alias(f"{name}_key"), F.struct(*map(quoted, table.column_names)).alias(f"{name}_row"))


def _texts(key: dict[str, object]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in key.items()}
