"""What each place has of one row: the answer of `cdc trace`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cdc.core.position import Lsn, format_lsn
from cdc.core.table import TableName

Row = Mapping[str, Any]
"""A row as a document: what indexes and latest logs have of it."""


@dataclass(frozen=True, slots=True)
class PlaceSighting:
    """One look for the row at one place.

    `has_row`: None where that is not known, which `note` explains. `lsn`: up to which the place shows the source.
    `at_ms`: when that was committed, since 1970 by the source's clock. `row`: only for comparison, and for `--values`.
    `expected`: what the place is to have of the source's row, where that is not the row itself.
    """

    place: str
    has_row: bool | None
    lsn: Lsn | None = None
    at_ms: int | None = None
    note: str = ""
    row: Row | None = None
    expected: Row | None = None

    def describe(self, source: "PlaceSighting") -> str:
        """Whether the row is there, and whether it is the source's."""
        if self.has_row is None:
            return "not known"
        if not self.has_row:
            return "no row"
        if self is source or source.row is None or self.row is None:
            return "has it"
        return "as in the source" if _is_same(self.row, self.expected or source.row) else "another version"

    @property
    def at(self) -> str | None:
        return datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(timespec="milliseconds") if self.at_ms else None


@dataclass(frozen=True, slots=True)
class RowTrace:
    """One row in all places, the source first."""

    table: TableName
    sightings: Sequence[PlaceSighting]

    def as_json(self, *, values: bool) -> dict[str, Any]:
        return {
            "table": str(self.table),
            "places": [
                {
                    "place": each.place,
                    "state": each.describe(self.sightings[0]),
                    "lsn": format_lsn(each.lsn) if each.lsn is not None else None,
                    "committed_at": each.at,
                    "note": each.note or None,
                    **({"row": each.row} if values else {}),
                }
                for each in self.sightings
            ],
        }


def _is_same(one: Row, other: Row) -> bool:
    """Do both have the same values? Of the log, values that were not sent are not compared."""
    return all(one[name] == other[name] for name in one.keys() & other.keys())
