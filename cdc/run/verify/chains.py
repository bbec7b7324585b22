"""Checks the chains of histories: whether a row of the past was changed, taken away or added."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.columns.table_copy import FrameCopy
from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.signatures import SigningKey, is_signed
from cdc.run.spark.errors import translate_errors
from cdc.sinks.lake.feed.frames import open_frame
from cdc.sinks.lake.feed.small_tables import hold_small
from cdc.sinks.lake.history.chain import BLOCK_ROWS, digest_block, digest_blocks, find_break
from cdc.sinks.lake.history.epochs import Epoch, list_epochs
from cdc.sinks.lake.history.erased import ErasedBatch, restore_digests
from cdc.sinks.lake.history.shape import BATCH, CHAIN, SEQUENCE, history_name

Batch = tuple[int, str, str]
"""A batch's number, its chain as noted, and the digest of its rows."""
_DIGESTED = pa.schema([(BATCH, pa.int64()), (CHAIN, pa.string()), ("first", pa.int64()), ("digest", pa.string())])


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """One epoch of a history: `batches` in it, the `end` of its chain, and the first batch that is `broken`, if one is.

    `unreadable`: why the epoch cannot be read; empty if it can. `has_begun`: false for a history that has no epoch yet.
    `erased`: rows that were erased, by signed tombstones (`cdc erase`).
    """

    history: TableName
    batches: int
    end: str
    broken: int | None
    unreadable: str = ""
    has_begun: bool = True
    erased: int = 0

    @property
    def is_whole(self) -> bool:
        return self.broken is None and not self.unreadable

    def as_json(self) -> dict[str, Any]:
        found = {
            "history": str(self.history),
            "batches": self.batches,
            "end": self.end,
            "broken": self.broken,
            "erased": self.erased,
        }
        return {**found, "unreadable": self.unreadable} if self.unreadable else found

    def __str__(self) -> str:
        if self.unreadable:
            return f"{self.history} cannot be read: {self.unreadable}"
        return f"{self.history}: a row of batch {self.broken} was changed, taken away or added"


def check_chains(pipeline: Pipeline) -> Sequence[ChainVerdict]:
    """Check the chain of every epoch of every history as it lies there now, whoever wrote it.

    Spark starts for the first one that is large.
    """
    lake, cut = pipeline.lake, pipeline.table_cuts.last()
    verdicts = list[ChainVerdict]()
    for name in pipeline.settings.histories:
        epochs = list_epochs(lake, name, cut)
        if not epochs:
            verdicts.append(ChainVerdict(history_name(name), 0, "", None, "it has not begun", has_begun=False))
        own = [_check(pipeline, epoch) for epoch in epochs]
        verdicts += [_check_link(*pair) for pair in zip(own, [*epochs[1:], None], strict=True)]
    return verdicts


def _check(pipeline: Pipeline, epoch: Epoch) -> ChainVerdict:
    if epoch.opened is None:
        return ChainVerdict(epoch.name, 0, "", None, epoch.why)
    after = epoch.opened.facts.after
    try:
        with translate_errors(f"the chain of {epoch.name}"):
            batches = _digest_epoch(pipeline, epoch.opened.table)
    except CdcError as error:
        if isinstance(error, UnreachableError | PreconditionError):
            raise
        # its own damage: the other histories are checked all the same
        return ChainVerdict(epoch.name, 0, "", None, error.what)
    erased = epoch.opened.facts.erased
    for mark in erased:
        if not _is_own(pipeline, mark, epoch.name):
            return ChainVerdict(epoch.name, len(batches), "", mark.batch)
    batches = [*restore_digests(batches, erased)]
    end = batches[-1][1] if batches else after.chain
    broken, rows = find_break(batches, after.chain, after.batch), sum(mark.rows for mark in erased)
    return ChainVerdict(epoch.name, len(batches), end, broken, erased=rows)


def _is_own(pipeline: Pipeline, mark: ErasedBatch, history: TableName) -> bool:
    """Is a tombstone signed, by one of our keys if the settings name some?"""
    settings = pipeline.settings.erase
    own = {*settings.former_keys, *([SigningKey.load(settings).public] if settings.signing_key else [])}
    is_known = mark.public in own or not own
    return is_known and is_signed(mark.content(str(history)), mark.public, mark.signature)


def _digest_epoch(pipeline: Pipeline, table: Table) -> Sequence[Batch]:
    rows = hold_small(pipeline.lake, table)
    if rows is not None:
        return digest_rows(rows, table)
    frame = open_frame(pipeline.spark, pipeline.lake, table.name)
    found = digest_batches(frame, table).orderBy(BATCH, CHAIN).collect()
    return [(row[BATCH], row[CHAIN], row["digest"]) for row in found]


def _check_link(verdict: ChainVerdict, following: Epoch | None) -> ChainVerdict:
    """The verdict on an epoch, which is broken at its end when the next one goes on with another chain."""
    after = following.opened.facts.after if following and following.opened else None
    # the next one began after nothing if this one could not be read then
    if after is None or not after.batch or not verdict.is_whole or after.chain == verdict.end:
        return verdict
    return replace(verdict, broken=after.batch)


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


def digest_rows(rows: pa.Table, table: Table) -> Sequence[Batch]:
    """The batches of a history's rows, as `digest_batches` has them, in order, computed in this process."""
    ordered = rows.sort_by([(name, "ascending") for name in (BATCH, CHAIN, SEQUENCE)])
    blocks = pa.Table.from_batches(_digest_blocks([ordered], table), _DIGESTED).to_pylist() if len(rows) else []
    found = dict[tuple[int, str], list[tuple[int, str]]]()
    for block in blocks:
        found.setdefault((block[BATCH], block[CHAIN]), []).append((block["first"], block["digest"]))
    return [(*batch, digest_blocks(digest for _, digest in sorted(found[batch]))) for batch in sorted(found)]


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
