"""Checks the chains of histories: whether a row of the past was changed, taken away or added."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.table_copy import FrameCopy
from cdc.config.settings import PipelineSettings
from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import lake_of
from cdc.run.spark.errors import translate_errors
from sinks.lake import layout
from sinks.lake.history.chain import find_break, hash_rows
from sinks.lake.history.shape import BATCH, CHAIN, history_name

_HASHED = pa.schema([(BATCH, pa.int64()), (CHAIN, pa.string()), ("digest", pa.string())])


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
    """The batches of a history's rows: BATCH (bigint), CHAIN (string), digest (string)."""
    columns = f"{BATCH} bigint, {CHAIN} string, digest string"
    hashed = FrameCopy(history, table).map_parts(partial(_hash, table=table), columns)
    digest = F.sha2(F.array_join(F.sort_array(F.collect_list("digest")), ""), 256)
    return hashed.groupBy(BATCH, CHAIN).agg(digest.alias("digest"))


def _hash(parts: Iterable[pa.Table], table: Table) -> Iterator[pa.RecordBatch]:
    for part in parts:
        columns = [part[BATCH].combine_chunks(), part[CHAIN].combine_chunks(), pa.array(hash_rows(part, table))]
        yield pa.RecordBatch.from_arrays(columns, schema=_HASHED)
