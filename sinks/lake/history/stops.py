"""Histories that are kept no further: each is told by name, with the LSN from which on it lacks changes.

Its table is followed on. The table's next copy begins a new epoch of the history.
"""

import errno
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Final

import pyarrow as pa

from cdc.core.containment import LOG
from cdc.core.errors import CdcError, RefusedError, UnreachableError
from cdc.core.position import Bookmark, Lsn, format_lsn
from cdc.core.table import TableName
from cdc.sinks.lake.delta.damage import loss_reason
from cdc.sinks.lake.history.shape import history_name
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.table import MetadataTable

FOLDER: Final = "stopped_histories"
SCHEMA: Final = pa.schema(
    {
        "schema": pa.string(),
        "table": pa.string(),  # the table whose history it is
        "epoch": pa.int64(),  # the history's epoch, from 1
        "copied_lsn": pa.int64(),  # the bookmark of the table's copy; with another copy the history goes on
        "lsn": pa.int64(),  # changes after this LSN are not in it
        "reason": pa.string(),
    }
)
"""One row a stop; the newest row of a table counts."""
_OF_THE_MACHINE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EROFS}


class HistoryStoppedError(CdcError):
    """A history cannot be kept further, for the reason `what`; its table can be followed on."""


@dataclass(frozen=True, slots=True)
class StoppedHistory:
    """A history that gets no more versions: a row of SCHEMA."""

    schema: str
    table: str
    epoch: int
    copied_lsn: int
    lsn: int
    reason: str

    @property
    def tracked(self) -> TableName:
        """The table whose history it is."""
        return TableName(self.schema, self.table)

    @property
    def name(self) -> TableName:
        return history_name(self.tracked, self.epoch)

    def is_of(self, bookmark: Bookmark) -> bool:
        """Is it a stop of the table's present copy?"""
        return self.copied_lsn == bookmark.lsn

    @property
    def remedy(self) -> str:
        return (
            f"stop `cdc follow`; `cdc bootstrap --again {self.tracked}`, and the history goes on in a new epoch;"
            " or take it out of `history:`"
        )

    def __str__(self) -> str:
        since = format_lsn(Lsn(self.lsn))
        return f"{self.name} is kept no further, and lacks what {self.tracked} changes after {since}: {self.reason}"


class StoppedHistories:
    """The lake's list of stopped histories; thread-safe."""

    def __init__(self, lake: Lake) -> None:
        self._table = MetadataTable(lake.metadata_storage(FOLDER), FOLDER, SCHEMA)
        self._cached: Mapping[TableName, StoppedHistory] | None = None
        self._lock = Lock()

    def find(self, tracked: TableName) -> StoppedHistory | None:
        """The last stop of a table's history, also one that is over."""
        with self._lock:
            return self._known().get(tracked)

    def add(self, stop: StoppedHistory) -> None:
        with self._lock:
            known = self._known()
            self._table.append([asdict(stop)])
            self._cached = {**known, stop.tracked: stop}

    def _known(self) -> Mapping[TableName, StoppedHistory]:
        # read once: only the lake's writer adds stops
        if self._cached is None:
            stops = [StoppedHistory(**row) for row in self._table.rows().to_pylist()]
            self._cached = {stop.tracked: stop for stop in stops}
        return self._cached


def is_own_trouble(error: Exception) -> bool:
    """Is it the history's own trouble? Not that of a machine or a store, which everything else meets, too."""
    if isinstance(error, UnreachableError | RefusedError | ConnectionError | TimeoutError | MemoryError):
        return False
    return not (isinstance(error, OSError) and error.errno in _OF_THE_MACHINE)


def describe_trouble(error: Exception, name: TableName) -> str:
    """One line for people; the traceback of what nobody expected goes to the log."""
    if isinstance(error, CdcError):
        return loss_reason(error).removeprefix(f"{name}: ")
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is gone from the lake"
    LOG.error("history %s: %s", name, error, exc_info=error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"
