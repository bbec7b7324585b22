"""The changes of one table as a streaming DataFrame, for a program's own Structured Streaming job."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.changes import Decoded, Messages, Op
from cdc.columns.types.spark_types import row_type
from cdc.connect.capture.debezium_properties import placeholder
from cdc.core.errors import HistoryLostError, PreconditionError, UnreachableError
from cdc.core.position import Bookmark, format_lsn, parse_lsn
from cdc.core.table import Table, TableName
from cdc.log.clients.message_columns import NEW_KEY_HEADER, OLD_KEY_HEADER
from cdc.log.clients.reader import Reader, Record, read_settled_bounds
from cdc.log.envelope import ChangeOrigin
from cdc.log.names import change_topic, transaction_topic
from cdc.log.spark_options import topic_options
from cdc.log.transaction_topic import find_covered
from cdc.run.pipeline import Pipeline
from cdc.run.read.cuts import LakeCut
from cdc.run.read.shape_watch import ShapeWatch, watch_shape
from cdc.sinks.lake import layout
from cdc.sinks.lake.metadata.stopped_tables import StoppedTables

FURTHER: Final = T.StructType(
    [
        T.StructField("_change", T.StringType()),  # insert, update, delete, truncate
        T.StructField("_committed_at", T.TimestampType()),  # when the source committed it
        T.StructField("_lsn", T.LongType()),  # above all earlier commits, below that of its own
        T.StructField("_tx_id", T.LongType()),  # the source's transaction
        T.StructField("_number", T.LongType()),  # the change's number among the table's changes in it
        T.StructField("_unsent", T.ArrayType(T.StringType())),  # columns that an update has left out (TOAST)
    ]
)
"""The columns behind those of the table. No column of a followed table can be mistaken for one of them: a table that
has one of these names is refused."""
_NAMES: Final = {Op.CREATE: "insert", Op.UPDATE: "update", Op.DELETE: "delete", Op.TRUNCATE: "truncate"}
NEWER_CUT: Final = "begin at a newer one: after=cdc.cut()"
BEHIND_CUT: Final = "behind a cut of now: after=cdc.cut()"
ALTERED: Final = (
    "start the job anew, once `cdc follow` has applied it, if columns were only added; else, once the table is copied"
    f" again, with a new checkpoint, {BEHIND_CUT}"
)
_RAW: Final = ("key", "value", "headers", "partition", "offset")


def open_changes(pipeline: Pipeline, name: TableName, after: LakeCut | None = None) -> DataFrame:
    """The changes of a table, those of one key in the order of their commits.

    Columns: those of the table, then FURTHER. A delete has the key's columns only, a truncate none. An update of a key
    is a delete and an insert. From the table's copy on, or behind a cut: with the cut's rows, that is everything.
    Spark's checkpoint keeps the place. The order of a key ends where its topic gets further partitions. A transaction
    in which Kafka Connect was killed comes again from its begin, with the same `_tx_id` and `_number`.

    Raises PreconditionError for a table that has no copy in the lake, is stopped, or has a column of FURTHER, and for a
    cut from before the copy; HistoryLostError when the topic was made anew since.
    """
    copy = _read_copy(pipeline, name)
    if after is not None:
        copy = replace(copy, offsets=_find_place(pipeline, copy, after))
    with pipeline.open_log() as reader, pipeline.open_log(committed=False) as beyond:
        start = find_start(reader, beyond, transaction_topic(pipeline.settings.log.prefix), copy)
    options = topic_options(pipeline.settings.log, copy.topic, start)
    messages = pipeline.spark.readStream.format("kafka").options(**options).load().select(*_RAW)
    schema = T.StructType([*row_type(copy.table).fields, *FURTHER.fields])
    unsent, shape = placeholder(pipeline.name), watch_shape(pipeline, name, copy.bookmark.lsn)
    return messages.mapInArrow(partial(_decode, copy=copy, placeholder=unsent, shape=shape), schema)


@dataclass(frozen=True, slots=True)
class Copy:
    """A table's copy in the lake, and its place in the log. `offsets`: where the changes behind it, or a cut, begin."""

    table: Table
    id: str
    bookmark: Bookmark
    topic: str
    offsets: Mapping[int, int]


def _read_copy(pipeline: Pipeline, name: TableName) -> Copy:
    lake, topic = pipeline.lake, change_topic(pipeline.settings.log.prefix, name)
    opened = layout.open_table(lake, name)
    mark = layout.bookmark(lake, opened[0].snapshot) if opened else None
    if opened is None or mark is None:
        raise PreconditionError(f"the lake has no copy of {name}", "list it in source.tables, and run `cdc bootstrap`")
    log, table = opened
    if stop := StoppedTables(lake).by_id().get(log.snapshot.table_id):
        # what comes may be of other columns already
        raise PreconditionError(str(stop), stop.remedy)
    if taken := {*table.column_names} & {*FURTHER.names}:
        raise PreconditionError(f"{name} has a column {min(taken)}, which the stream of changes has, too", "rename it")
    return Copy(table, log.snapshot.table_id, mark, topic, mark.topic_ends.get(topic, {}))


def _find_place(pipeline: Pipeline, copy: Copy, after: LakeCut) -> Mapping[int, int]:
    """Where the changes behind a cut begin."""
    lsn, name = parse_lsn(after.lsn), str(copy.table.name)
    cut = pipeline.table_cuts.find_newest(lsn=lsn)
    # behind an older one, changes would come that the rows of `after` have
    if cut is None or cut.position.lsn != lsn:
        raise PreconditionError(f"the lake no longer has the cut at {after.lsn}", NEWER_CUT)
    if name not in cut.versions:
        raise PreconditionError(f"the cut at {after.lsn} has no {name}", NEWER_CUT)
    # in between, it may have had changes that no message tells of, or other columns
    if cut.ids[name] != copy.id or not copy.bookmark.is_reached_by(cut.position.lsn):
        at = format_lsn(copy.bookmark.lsn)
        raise PreconditionError(f"{name} was copied again at {at}, behind the cut at {after.lsn}", NEWER_CUT)
    read = cut.position.next_offsets.get(copy.topic, {})
    return {at: max(read.get(at, 0), copy.offsets.get(at, 0)) for at in read.keys() | copy.offsets.keys()}


def find_start(reader: Reader, beyond: Reader, order: str, copy: Copy) -> Mapping[int, int]:
    """The first offset of each partition: behind the place, and behind the messages that the copy has beyond it.

    `order`: the transaction topic. `beyond` reads uncommitted records, too. Raises PreconditionError when the table has
    no topic, HistoryLostError when that was made anew, UnreachableError when a commit of the capture takes long.
    """
    topic, mark = copy.topic, copy.bookmark
    _check_reaches(topic, copy, beyond.end([topic])[topic])
    bounds = read_settled_bounds(reader, beyond, topic)
    first, end = (each[topic] for each in bounds)
    start = {partition: max(copy.offsets.get(partition, 0), at) for partition, at in first.items()}
    # a copy's ends count what was not committed yet, and Spark takes a start beyond the committed end for lost data
    if any(at > end[partition] for partition, at in start.items()):
        raise UnreachableError(f"{topic}: a transaction of the capture is still open", "try again in a moment")
    covered = find_covered(reader, order, mark.order_end, mark.lsn)
    return {
        partition: skip_covered(reader.read(topic, partition, at, end[partition]), covered, at) if covered else at
        for partition, at in start.items()
    }


def _check_reaches(topic: str, copy: Copy, ends: Mapping[int, int]) -> None:
    """Raise when the topic is gone, or ends before the place."""
    if not ends:
        raise PreconditionError(f"there is no topic {topic}", "run `cdc bootstrap`")
    if gone := [partition for partition, at in copy.offsets.items() if at > ends.get(partition, 0)]:
        name = copy.table.name
        raise HistoryLostError(
            f"{topic} ends at {ends.get(gone[0], 0)}, before {copy.offsets[gone[0]]}: it was made anew",
            f"copy {name} again with `cdc bootstrap --again {name}`, and begin behind that",
        )


def skip_covered(records: Iterable[Record], covered: Set[int], start: int) -> int:
    """The offset behind the first of these records, as far as they belong to the `covered` transactions."""
    # a partition is in commit order: whatever a copy has comes first
    for record in records:
        if record.value is not None and _decode_origin(record.value).source.txId not in covered:
            break
        start = record.offset + 1
    return start


def _decode(
    batches: Iterable[pa.RecordBatch], copy: Copy, placeholder: str, shape: ShapeWatch
) -> Iterator[pa.RecordBatch]:
    decoder, name, is_checked = Decoder(copy.table, placeholder), copy.table.name, False
    for batch in batches:
        messages = to_messages(copy.topic, batch)
        _check_behind(messages, copy)
        # once a task: all that it reads was there when it was planned
        if not is_checked and shape.has_news():
            raise PreconditionError(f"{name}: its columns have changed since the job was started", ALTERED)
        is_checked, decoded = True, decoder.decode(messages)
        if decoded.refused:
            refusal = decoded.refused[0].refusal
            what = f"{name}: the change at offset {refusal.offset} of {copy.topic} cannot be read: {refusal.reason}"
            raise PreconditionError(what, ALTERED)
        yield from _to_rows(decoded, messages, copy.table).to_batches()


def _check_behind(messages: Messages, copy: Copy) -> None:
    """Raise PreconditionError for a message from before the copy: only a checkpoint of an older job leads there."""
    ends = copy.bookmark.topic_ends.get(copy.topic, {})
    for partition, end in ends.items():
        if np.any((messages.partition == partition) & (messages.offset < end)):
            raise PreconditionError(
                f"{copy.table.name} was copied again at {format_lsn(copy.bookmark.lsn)}, and this job has not read all"
                " changes before that: they may be of other columns, and not all that happened",
                f"start it with a new checkpoint, {BEHIND_CUT}",
            )


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


_decode_origin = msgspec.json.Decoder(ChangeOrigin).decode


def _to_rows(decoded: Decoded, messages: Messages, table: Table) -> pa.Table:
    changes = decoded.changes
    sources = [_decode_origin(messages.value[at]).source for at in decoded.at.tolist()]
    unsent = _list_unsent(changes.unsent, len(changes))
    further: Sequence[Any] = [
        [_NAMES[Op(op)] for op in changes.op.tolist()],
        pa.array([source.ts_ms * 1000 for source in sources], pa.timestamp("us", "UTC")),
        [source.lsn for source in sources],
        changes.tx_id,
        changes.number,
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
