"""Finds columns of a table that have changed, before a stream of its changes reads a row with them.

Some types are sent alike, `int` and `date` say, so a row does not always tell that it has other columns than the stream
expects. The schema history does (`connect/source/schema_history.py`): its entry comes before the rows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from cdc.connect.source.schema_history import history_table
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.log.clients.reader import Reader, Record, read_span
from cdc.log.envelope import RowChange
from cdc.log.names import change_topic
from cdc.log.settings import LogSettings
from cdc.run.pipeline import Pipeline

Columns = tuple[tuple[str, int], ...]
"""The name and the type's oid of each column."""


class _Attribute(msgspec.Struct):
    name: str
    type: int


class _Shape(msgspec.Struct):
    columns: list[_Attribute]


class _Entry(msgspec.Struct):
    schema: str
    table: str
    shape: str | None = None


_decode = msgspec.json.Decoder(RowChange[_Entry]).decode


@dataclass(frozen=True, slots=True)
class NotedShape:
    """An entry of the history. `lsn`: below that of its commit. `columns`: None when the table is gone."""

    lsn: int
    columns: Columns | None


@dataclass(frozen=True, slots=True)
class ShapeWatch:
    """Watches the columns of one table in the schema history, from the offset `start` on; sent to Spark's tasks.

    `columns`: as the history had them before that; None if it tells of none. `copied_at`: the LSN of the table's copy,
    which has all changes below.
    """

    log: LogSettings
    topic: str
    start: int
    table: TableName
    copied_at: Lsn
    columns: Columns | None

    def has_news(self) -> bool:
        """Has the history an entry of this table with other columns, or that it is gone?

        Asked behind the arrival of rows, it has every entry that was committed before them.
        """
        # uncommitted ones, too: a commit's markers may reach the rows' partition before that of the history
        with Reader(self.log, committed=False) as reader:
            return self._has_news(reader)

    def _has_news(self, reader: Reader) -> bool:
        first, end = read_span(reader, self.topic)
        found = read_shapes(reader.read(self.topic, 0, max(self.start, first), end), self.table)
        return any(each.lsn > self.copied_at and each.columns != self.columns for _, each in found)


def watch_shape(pipeline: Pipeline, table: TableName, copied_at: Lsn) -> ShapeWatch:
    """Watch a table from where the lake has applied the schema history, or has it in the table's copy."""
    topic, cut = (
        change_topic(pipeline.settings.log.prefix, history_table(pipeline.settings.source).name),
        pipeline.table_cuts.last(),
    )
    start = cut.position.next_offsets.get(topic, {}).get(0, 0) if cut else 0
    with pipeline.open_log() as reader:
        first, end = read_span(reader, topic)
        found = read_shapes(reader.read(topic, 0, first, end), table)
        known = [each for offset, each in found if offset < start or each.lsn <= copied_at]
    return ShapeWatch(pipeline.settings.log, topic, start, table, copied_at, known[-1].columns if known else None)


def read_shapes(records: Iterable[Record], table: TableName) -> Iterator[tuple[int, NotedShape]]:
    """The entries of one table among messages of the history, with their offsets."""
    for record in records:
        if record.value is None or record.key is None:
            continue
        key = msgspec.json.decode(record.key, type=_Entry)
        if (key.schema, key.table) == (table.schema, table.table):
            yield record.offset, _read_shape(record.value)


def _read_shape(value: bytes) -> NotedShape:
    envelope = _decode(value)
    if envelope.after is None or not envelope.after.shape:
        return NotedShape(envelope.source.lsn, None)
    shape = msgspec.json.decode(envelope.after.shape, type=_Shape)
    return NotedShape(envelope.source.lsn, tuple((column.name, column.type) for column in shape.columns))
