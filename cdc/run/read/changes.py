"""The changes of one table as a streaming DataFrame, for a program's own Structured Streaming job."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.changes import Decoded, Messages, Op
from cdc.columns.values.spark_types import row_type
from cdc.config.settings import PipelineSettings
from cdc.connect.capture.debezium_properties import placeholder
from cdc.core.errors import PreconditionError
from cdc.core.position import parse_lsn
from cdc.core.table import Table, TableName
from cdc.log.clients.message_columns import NEW_KEY_HEADER, OLD_KEY_HEADER
from cdc.log.clients.reader import Reader
from cdc.log.names import change_topic
from cdc.log.spark_options import topic_options
from cdc.run.pipeline import lake_of
from cdc.run.read.cuts import LakeCut
from cdc.sinks.lake import layout
from cdc.sinks.lake.metadata.cuts import Cuts

FURTHER: Final = T.StructType(
    [
        T.StructField("_change", T.StringType()),  # insert, update, delete, truncate
        T.StructField("_committed_at", T.TimestampType()),  # when the source committed it
        T.StructField("_lsn", T.LongType()),  # above all earlier commits, below that of its own
        T.StructField("_tx_id", T.LongType()),  # the source's transaction
        T.StructField("_number", T.LongType()),  # the change's number in it
        T.StructField("_unsent", T.ArrayType(T.StringType())),  # columns that an update has left out (TOAST)
    ]
)
"""The columns behind those of the table. No column of a followed table can be mistaken for one of them: a table that
has one of these names is refused."""
_NAMES: Final = {Op.CREATE: "insert", Op.UPDATE: "update", Op.DELETE: "delete", Op.TRUNCATE: "truncate"}
_RAW: Final = ("key", "value", "headers", "partition", "offset")


def open_changes(
    spark: SparkSession, settings: PipelineSettings, name: TableName, after: LakeCut | None = None
) -> DataFrame:
    """The changes of a table, each once, those of one key in the order of their commits.

    Columns: those of the table, then FURTHER. A delete has the key's columns only, a truncate none. An update of a key
    is a delete and an insert. From the oldest change that the log has, or behind a cut: with the cut's rows, that is
    everything. Spark's checkpoint keeps the place.

    Raises PreconditionError for a table that has no copy in the lake, or a column of FURTHER.
    """
    table = _read_table(settings, name)
    topic = change_topic(settings.log.prefix, name)
    options = topic_options(settings.log, _start(settings, topic, after))
    messages = spark.readStream.format("kafka").options(**options).load().select(*_RAW)
    unsent = placeholder(settings.pipeline.name)
    schema = T.StructType([*row_type(table).fields, *FURTHER.fields])
    return messages.mapInArrow(partial(_decode, table=table, topic=topic, placeholder=unsent), schema)


def _read_table(settings: PipelineSettings, name: TableName) -> Table:
    log = layout.open_owned_log(lake_of(settings), name)
    table = layout.table_of(log.snapshot) if log else None
    if table is None:
        raise PreconditionError(f"the lake has no copy of {name}", "list it in source.tables, and run `cdc bootstrap`")
    if taken := {*table.column_names} & {*FURTHER.names}:
        raise PreconditionError(f"{name} has a column {min(taken)}, which the stream of changes has, too", "rename it")
    return table


def _start(settings: PipelineSettings, topic: str, after: LakeCut | None) -> dict[str, dict[int, int]]:
    """The first offset of each partition."""
    with Reader(settings.log) as reader:
        first = reader.beginning([topic])
    if after is None:
        return first
    cut = Cuts(lake_of(settings)).find_newest(lsn=parse_lsn(after.lsn))
    if cut is None:
        raise PreconditionError(f"the lake no longer has the cut at {after.lsn}", "begin at a newer one")
    read = cut.position.next_offsets.get(topic, {})
    return {topic: {partition: max(read.get(partition, 0), at) for partition, at in first[topic].items()}}


def _decode(batches: Iterable[pa.RecordBatch], table: Table, topic: str, placeholder: str) -> Iterator[pa.RecordBatch]:
    decoder = Decoder(table, placeholder)
    for batch in batches:
        messages = to_messages(topic, batch)
        decoded = decoder.decode(messages)
        if decoded.refused:
            refusal = decoded.refused[0].refusal
            what = f"{table.name}: the change at offset {refusal.offset} of {topic} cannot be read: {refusal.reason}"
            raise PreconditionError(what, "start the job anew if the table's columns have changed")
        yield from _to_rows(decoded, messages, table).to_batches()


def to_messages(topic: str, batch: pa.RecordBatch) -> Messages:
    """The messages of a batch of Spark's Kafka source, without tombstones."""
    there = batch.filter(pc.is_valid(batch["value"]))
    headers = [{each["key"]: each["value"] for each in sent or ()} for sent in there["headers"].to_pylist()]
    return Messages(
        topic,
        np.asarray(there["partition"], np.int64),
        np.asarray(there["offset"], np.int64),
        there["key"].to_pylist(),
        there["value"].to_pylist(),
        [sent.get(OLD_KEY_HEADER) for sent in headers],
        np.array([NEW_KEY_HEADER in sent for sent in headers], np.bool_),
    )


class _Source(msgspec.Struct):
    lsn: int
    ts_ms: int


class _Envelope(msgspec.Struct):
    source: _Source


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def _to_rows(decoded: Decoded, messages: Messages, table: Table) -> pa.Table:
    changes = decoded.changes
    sources = [_decode_envelope(messages.value[at]).source for at in decoded.at.tolist()]
    unsent = _list_unsent(changes.unsent, len(changes))
    further: Sequence[Any] = [
        [_NAMES[Op(op)] for op in changes.op.tolist()],
        pa.array([source.ts_ms * 1000 for source in sources], pa.timestamp("us", "UTC")),
        [source.lsn for source in sources],
        changes.tx_id,
        changes.total_order,
        pa.array(unsent, pa.list_(pa.string())),
    ]
    rows = changes.rows
    for name in table.key:
        # a deleted row has its key only
        at = rows.column_names.index(name)
        key = changes.key_columns[name].cast(rows.schema.field(at).type)
        rows = rows.set_column(at, rows.schema.field(at), pc.coalesce(rows[name], key))
    for name, values in zip(FURTHER.names, further, strict=True):
        rows = rows.append_column(name, pa.chunked_array([pa.array(values)]))
    return rows


def _list_unsent(unsent: dict[str, Any], count: int) -> list[list[str]]:
    named: list[list[str]] = [[] for _ in range(count)]
    for name, mask in unsent.items():
        for at in np.flatnonzero(mask).tolist():
            named[at].append(name)
    return named
