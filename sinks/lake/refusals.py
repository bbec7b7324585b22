"""Messages that are no changes, kept where they can be looked at: a Delta table of the lake's own."""

from collections.abc import Sequence

import pyarrow as pa

from cdc.columns.changes import RefusedMessage
from sinks.lake.layout import Lake
from sinks.lake.own_table import OwnTable

FOLDER = "refusals"
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
    ]
)
MOST = 1000
"""Messages kept of one batch: the batch stops at the first anyway."""


def keep(lake: Lake, refused: Sequence[RefusedMessage]) -> None:
    """Store the messages, each once however often its batch is tried."""
    table = OwnTable(lake.own_table(FOLDER), FOLDER, SCHEMA)
    known = {tuple(row.values()) for row in table.rows().select(["topic", "partition", "offset"]).to_pylist()}
    fresh = [row for row in map(_row, refused[:MOST]) if (row["topic"], row["partition"], row["offset"]) not in known]
    if fresh:
        table.append(fresh)


def _row(message: RefusedMessage) -> dict[str, object]:
    place = message.refusal
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": place.offset,
        "key": message.key,
        "value": message.value,
        "reason": place.reason,
    }
