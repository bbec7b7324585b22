"""Checks the chains of histories: whether a row of the past was changed, taken away or added."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.table_copy import FrameCopy
from cdc.config.settings import PipelineSettings
from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import lake_of
from cdc.run.spark.errors import translate_errors
from cdc.sinks.lake import layout
from cdc.sinks.lake.history.chain import BLOCK_ROWS, digest_block, find_break
from cdc.sinks.lake.history.shape import BATCH, CHAIN, SEQUENCE, history_name

_DIGESTED = pa.schema([(BATCH, pa.int64()), (CHAIN, pa.string()), ("first", pa.int64()), ("digest", pa.string())])


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """One history: `batches` in it, the `end` of its chain, and the first batch that is `broken`, if one is."""

    history: TableName
    batches: int
    end: str
    broken: int | None

    def as_json(self) -> dict[str, Any]:
        return {"history": str(self.history), "batches": self.batches, "end": self.end, "broken": self.broken}


def check_chains(settings: PipelineSettings, spark: SparkSession) -> Sequence[ChainVerdict]:
    """Check the chain of every history as it lies there now, whoever wrote it.

    Raises PreconditionError for one that has not begun.
    """
    return [_check(settings, spark, history_name(name)) for name in settings.histories]


def _check(settings: PipelineSettings, spark: SparkSession, name: TableName) -> ChainVerdict:
    lake = lake_of(settings)
    log = layout.open_owned_log(lake, name)
    table = layout.table_of(log.snapshot) if log else None
    if table is None:
        raise PreconditionError(f"{name} has not begun", "run `cdc bootstrap` first")
    with translate_errors(f"the chain of {name}"):
        frame = spark.read.format("delta").load(lake.folder(name))
        rows = digest_batches(frame, table).orderBy(BATCH, CHAIN).collect()
    batches = [(row[BATCH], row[CHAIN], row["digest"]) for row in rows]
    return ChainVerdict(name, len(batches), batches[-1][1] if batches else "", find_break(batches))


def digest_batches(history: DataFrame, table: Table) -> DataFrame:
    """The batches of a history's rows: BATCH (bigint), CHAIN (string), digest (string).

    A batch whose rows name several chains is there for each.
    """
    block = F.col(SEQUENCE) - F.col(SEQUENCE) % BLOCK_ROWS
    ordered = history.repartition(F.col(BATCH), block).sortWithinPartitions(BATCH, CHAIN, SEQUENCE)
    columns = f"{BATCH} bigint, {CHAIN} string, first bigint, digest string"
    digested = FrameCopy(ordered, table).map_parts(partial(_digest_blocks, table=table), columns)
    in_order = F.array_sort(F.collect_list(F.struct("first", "digest")))
    whole = F.sha2(F.array_join(F.transform(in_order, lambda each: each["digest"]), ""), 256)
    return digested.groupBy(BATCH, CHAIN).agg(whole.alias("digest"))


def _digest_blocks(parts: Iterable[pa.Table], table: Table) -> Iterator[pa.RecordBatch]:
    for rows in _split_blocks(parts):
        first = [rows[name][0].as_py() for name in (BATCH, CHAIN, SEQUENCE)]
        columns = [[value] for value in (*first, digest_block(rows, table))]
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, _DIGESTED, strict=True)], schema=_DIGESTED
        )


def _split_blocks(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of each block, which may come in several parts; all of a block come one after the other."""
    held = list[pa.Table]()
    for part in parts:
        for rows in _cut_where_others_begin(part):
            if held and _block_of(held[0]) != _block_of(rows):
                yield pa.concat_tables(held)
                held = []
            held.append(rows)
    if held:
        yield pa.concat_tables(held)


def _cut_where_others_begin(rows: pa.Table) -> Iterator[pa.Table]:
    batch, block = np.asarray(rows[BATCH]), np.asarray(rows[SEQUENCE]) // BLOCK_ROWS
    chain = np.asarray(rows[CHAIN].to_pylist(), object)
    others = (batch[1:] != batch[:-1]) | (block[1:] != block[:-1]) | (chain[1:] != chain[:-1])
    starts = [0, *(np.flatnonzero(others) + 1).tolist(), len(rows)]
    return (rows.slice(at, end - at) for at, end in pairwise(starts) if end > at)


def _block_of(rows: pa.Table) -> tuple[int, str, int]:
    batch, chain, sequence = (rows[name][0].as_py() for name in (BATCH, CHAIN, SEQUENCE))
    return batch, chain, sequence // BLOCK_ROWS
