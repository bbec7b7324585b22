"""A batch as a follower of the log takes it in: whole transactions, and the decoded changes of every table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.names import Changes
from cdc.core.change import Place
from cdc.core.table import TableName
from cdc.core.transaction import TransactionEnd

MARKER = "ended_by"


@dataclass(frozen=True, slots=True)
class TableChanges:
    """One table's part of a batch.

    `decoded`: columns of `Changes` but RANK, refusals among them, maybe changes of transactions outside the batch too.
    `truncates`: where the table was truncated. `refused`: how many messages are no changes. `moves`: some key may have
    changed. `redelivered`: some change may be there twice.
    """

    decoded: DataFrame
    truncates: tuple[Place, ...] = ()
    refused: int = 0
    moves: bool = True
    redelivered: bool = True


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Whole transactions in commit order and, for every table that they touch, its changes."""

    ends: tuple[TransactionEnd, ...]
    tables: Mapping[TableName, TableChanges]


def ranked(changes: TableChanges, ends: Sequence[TransactionEnd]) -> DataFrame:
    """The decoded changes of these transactions only, with their RANK; refusals without a transaction stay."""
    ranks = rank_frame(changes.decoded.sparkSession, ends)
    own = F.col(Changes.TX_ID).eqNullSafe(F.col(MARKER))
    joined = changes.decoded.join(F.broadcast(ranks), own, "left").where(
        F.col(Changes.RANK).isNotNull() | F.col(Changes.TX_ID).isNull()
    )
    once = joined.dropDuplicates([Changes.TX_ID, Changes.TOTAL_ORDER]) if changes.redelivered else joined
    return once.drop(MARKER)


def after_truncate(ranked_changes: DataFrame, place: Place | None) -> DataFrame:
    """Without the TRUNCATEs and what the last of them, at `place`, took away."""
    kept = ranked_changes.where(~F.col(Changes.OP).eqNullSafe("t"))
    if place is None:
        return kept
    here = F.struct(F.col(Changes.RANK), F.col(Changes.TOTAL_ORDER))
    there = F.struct(F.lit(place.rank).cast("long"), F.lit(place.total_order).cast("long"))
    return kept.where(F.col(Changes.RANK).isNull() | (here > there))


def rank_frame(spark: SparkSession, ends: Sequence[TransactionEnd]) -> DataFrame:
    """The ENDs as a frame: `ended_by` is the transaction's id, RANK its END's offset."""
    columns = {MARKER: [end.tx_id for end in ends], Changes.RANK.value: [end.offset for end in ends]}
    return spark.createDataFrame(pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}))
