"""The table of cuts: after every batch, which versions of all tables belong to one position.

It is what readers use to see several tables at one moment, where the lake keeps its own position, and the feed of the
followers behind it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc.core.errors import RefusedError
from cdc.core.position import Position
from sinks.lake.layout import Lake, open_table

FOLDER = "cuts"
TIDY_EVERY, TIDY_BYTES, KEPT_HOURS = 200, 4 * 1024 * 1024, 168
_SHIFT = 1
"""The first cut is before offset 0, and a `txn` version is not negative."""
SCHEMA = pa.schema(
    [
        pa.field("end_offset", pa.int64(), nullable=False),
        pa.field("lsn", pa.int64(), nullable=False),
        pa.field("committed_at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("position", pa.string(), nullable=False),
        pa.field("versions", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Cut:
    """Every table's Delta version at one position, and when the last transaction in it committed."""

    position: Position
    committed_ms: int
    versions: Mapping[str, int]

    def as_record(self) -> dict[str, object]:
        return {
            "end_offset": self.position.end_offset,
            "lsn": self.position.lsn,
            "committed_at": datetime.fromtimestamp(self.committed_ms / 1000, UTC),
            "position": json.dumps(self.position.as_json()),
            "versions": json.dumps(dict(self.versions)),
        }


def cut_of(record: Mapping[str, object]) -> Cut:
    """Read one row of the table back."""
    committed = record["committed_at"]
    assert isinstance(committed, datetime)
    position = Position.from_json(json.loads(str(record["position"])))
    milliseconds = round(committed.replace(tzinfo=UTC).timestamp() * 1000)
    return Cut(position, milliseconds, json.loads(str(record["versions"])))


class Cuts:
    """The table of cuts of one lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.folder = lake.own_folder(FOLDER)

    def prepare(self) -> None:
        """Make the table if it is not there."""
        if open_table(self.folder) is None:
            DeltaTable.create(self.folder, SCHEMA, mode="ignore")

    def last(self) -> Cut | None:
        """The newest cut, or None before the first."""
        delta = open_table(self.folder)
        offset = delta.transaction_version(self._lake.app_id) if delta else None
        if delta is None or offset is None:
            return None
        return _found(delta, offset - _SHIFT)

    def at(self, end_offset: int) -> Cut | None:
        """The cut at this END's offset, or None when there is none."""
        delta = open_table(self.folder)
        return _found(delta, end_offset) if delta else None

    def add(self, cut: Cut, after: Cut | None) -> None:
        """Commit a cut behind `after`; raises RefusedError when another writer was there first."""
        last = self.last()
        if (last and last.position.end_offset) != (after and after.position.end_offset):
            raise RefusedError(
                f"another writer has moved the lake {self._lake.path}", "stop the other `cdc follow`, then start again"
            )
        version = Transaction(self._lake.app_id, cut.position.end_offset + _SHIFT)
        write_deltalake(
            self.folder,
            pa.Table.from_pylist([cut.as_record()], SCHEMA),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[version]),
        )
        self._tidy()

    def _tidy(self) -> None:
        """Now and then put the cuts' many small files together: whoever reads one opens them all."""
        delta = DeltaTable(self.folder)
        if delta.version() % TIDY_EVERY == 0:
            delta.optimize.compact(target_size=TIDY_BYTES)
            delta.vacuum(retention_hours=KEPT_HOURS, dry_run=False)


def _found(delta: DeltaTable, end_offset: int) -> Cut | None:
    rows = delta.to_pyarrow_table(filters=[("end_offset", "=", end_offset)]).to_pylist()
    return cut_of(rows[-1]) if rows else None
