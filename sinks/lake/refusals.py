"""Messages that are no changes, kept where they can be looked at: a Delta table of the lake's own."""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.columns.names import Changes
from cdc.core.refusal import Refusal
from sinks.lake.layout import Lake, open_table

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


def refused(decoded: DataFrame) -> list[dict[str, object]]:
    """The refusals among decoded messages, as rows of the table."""
    found = decoded.where(F.col(Changes.REFUSAL).isNotNull()).limit(MOST)
    names = ("topic", "partition", "offset", "raw_key AS key", "raw_value AS value", f"{Changes.REFUSAL} AS reason")
    return [row.asDict() for row in found.selectExpr(*names).collect()]


def keep(lake: Lake, rows: Sequence[dict[str, object]]) -> list[Refusal]:
    """Store the refusals, each once however often its batch is tried, and say what they are."""
    folder = lake.own_folder(FOLDER)
    known = _known(folder)
    fresh = [row for row in rows if (row["topic"], row["partition"], row["offset"]) not in known]
    if fresh:
        marker = Transaction(f"{lake.app_id}/refusals", len(known) + len(fresh))
        write_deltalake(
            folder,
            pa.Table.from_pylist(list(fresh), SCHEMA),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[marker]),
        )
    return [Refusal(str(r["topic"]), int(str(r["partition"])), int(str(r["offset"])), str(r["reason"])) for r in rows]


def _known(folder: str) -> set[tuple[object, object, object]]:
    delta = open_table(folder)
    if delta is None:
        return set()
    rows = delta.to_pyarrow_table(columns=["topic", "partition", "offset"]).to_pylist()
    return {(row["topic"], row["partition"], row["offset"]) for row in rows}
