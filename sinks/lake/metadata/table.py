"""A small Delta table of the toolkit's own: appended to, compacted now and then, and read whole."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc.columns.types.arrow_types import conform
from cdc.core.errors import HistoryLostError, RefusedError
from cdc.core.fail_points import reach
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.actions import Action
from cdc.sinks.lake.delta.checkpoint import take_due_checkpoint, write_checkpoint
from cdc.sinks.lake.delta.damage import describe_damage
from cdc.sinks.lake.delta.log import ConflictError, DeltaLog, LogDamagedError
from cdc.sinks.lake.delta.retention import Retention, vacuum
from cdc.sinks.lake.delta.schema import create_actions, metadata_action
from cdc.sinks.lake.delta.snapshot import DataFile, Snapshot, TxnUpdate, now_ms
from cdc.sinks.lake.delta.write_rate import WriteRate
from cdc.sinks.lake.storage.base import Storage, map_concurrently

COMPACT_AT_FILES = 200
"""Small files that trigger compaction: each reader opens all of them."""
LARGE_BYTES = 1024 * 1024
"""Files of this size and above are not compacted: whoever wants a single row reads its file whole. Measured with cuts:
1,000 of 200 tables, 37 MB in memory; 20,000 of five tables, 23 MB."""
MAX_TRIES = 20
CHECK_SECONDS = 60.0
"""How often to check that the last commit still exists: without it, `refresh` would never find another."""
REFRESH_SECONDS = 120.0
"""How often a writer on an object store looks for other writers' commits: each look is a request, and it meets them
anyway when it commits."""
CACHED_BYTES = 16 * 1024
"""Largest appended rows that stay in memory until compaction, which then need not read their file."""


class MetadataTable:
    """Rows of one Arrow schema in a folder of the lake; thread-safe.

    Other processes may write it, too. After their commit ours is retried, or refused when it carries a `TxnUpdate` that
    is no longer current. Their commits are read every `look_seconds`, by default on every call.
    """

    def __init__(self, storage: Storage, name: str, schema: pa.Schema, look_seconds: float = 0.0) -> None:
        self._storage = storage
        self._name = name
        self._schema = schema
        self._log: DeltaLog | None = None
        self._lock = threading.RLock()
        self._refresh_seconds = look_seconds
        self._refreshed_at = self._checked_at = float("-inf")
        self._cached_rows: dict[str, pa.Table] = {}

    def prepare(self) -> None:
        """Create the table, or add missing columns."""
        with self._lock:
            snapshot = self.snapshot()
            wanted = metadata_action(self._name, self._schema, {}, snapshot.table_id if snapshot else None)
            if snapshot is None:
                self._storage.make_root()
                log = DeltaLog(self._storage, Snapshot())
                self._commit_once(log, [*create_actions(self._name, self._schema, {})], "CREATE TABLE")
            elif snapshot.schema_string != wanted.schema_string:
                assert self._log is not None
                self._commit_once(self._log, [wanted], "CHANGE COLUMNS")

    def snapshot(self) -> Snapshot | None:
        """The table as it is now; None when it does not exist."""
        with self._lock:
            now = time.monotonic()
            if self._log is None:
                self._log, self._refreshed_at, self._checked_at = self._open(), now, now
            elif now - self._refreshed_at >= self._refresh_seconds:
                self._refreshed_at = now
                self._refresh(self._log, now)
            return self._log.snapshot if self._log else None

    def _refresh(self, log: DeltaLog, now: float) -> None:
        """Read other writers' commits."""
        if log.refresh():
            # the last commit has just been read
            self._checked_at = now
        if now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        if not log.has_last_commit():
            self._log = self._open()

    def invalidate(self) -> None:
        """Make the next call look for other writers' commits."""
        self._refreshed_at = float("-inf")

    def _open(self) -> DeltaLog | None:
        try:
            return DeltaLog.open(self._storage)
        except LogDamagedError as error:
            raise _lost_error(error.what) from error

    def write_rate(self) -> WriteRate:
        with self._lock:
            self.snapshot()
            return self._log.rate_meter.rate() if self._log else WriteRate()

    def append(self, rows: Sequence[Mapping[str, Any]], move: TxnUpdate | None = None) -> None:
        """Append rows, with a `TxnUpdate` if given; raises RefusedError when another writer moved that one first."""
        with self._lock:
            self.prepare()
            assert self._log is not None
            if move and not move.is_current(self._log.snapshot):
                raise self._conflict_error()
            packed = self._to_arrow(rows)
            added = data_files.write(self._storage, packed, self._schema.names)
            actions: list[Action] = [added.add_action(), *([move.action] if move else [])]
            reach("metadata.written")
            self._commit_retried(self._log, actions, "WRITE", move)
            if packed.nbytes <= CACHED_BYTES:
                self._cached_rows[added.path] = packed

    def commit(self, actions: Sequence[Action], operation: str) -> None:
        """Commit actions that do not depend on the table's content; raises RefusedError when other writers keep
        winning."""
        with self._lock:
            self.prepare()
            assert self._log is not None
            self._commit_retried(self._log, actions, operation)

    def _commit_retried(
        self, log: DeltaLog, actions: Sequence[Action], operation: str, move: TxnUpdate | None = None
    ) -> None:
        # the same actions each time: appended rows do not depend on other writers' commits
        for _ in range(MAX_TRIES):
            try:
                return self._commit(log, actions, operation)
            except ConflictError:
                log.refresh()
            if move and not move.is_current(log.snapshot):
                break
        raise self._conflict_error()

    def _commit(self, log: DeltaLog, actions: Sequence[Action], operation: str) -> None:
        """Raises ConflictError, and HistoryLostError when the table is gone or was put back to an older state."""
        try:
            log.commit(actions, operation)
            # a conflict would have shown another writer's commit
            self._refreshed_at = self._checked_at = time.monotonic()
        except FileNotFoundError:
            # reopen next time: another process may continue from the older state
            self._log = None
            raise HistoryLostError(
                f"version {log.snapshot.version} of {self._storage.uri()} is gone: the lake was removed, or put back to"
                " an older state",
                "start `cdc follow` again: it goes on from what is there",
            ) from None

    def _conflict_error(self) -> RefusedError:
        return RefusedError(f"another writer has moved {self._storage.uri()}", "stop the other `cdc follow`")

    def rows(self, files: Sequence[DataFile] | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all rows, or those of some files; `columns`: nothing else of them is read."""
        schema = self._schema if columns is None else pa.schema([self._schema.field(name) for name in columns])
        if files is None:
            snapshot = self.snapshot()
            files = list(snapshot.files.values()) if snapshot else []
        parts = map_concurrently(partial(self._read, schema), files)
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def compact(self, keep: pc.Expression | None = None) -> None:
        """Rewrite all files with only the rows that match `keep`, the small ones as one; the change feed shows none of
        it."""
        with self._lock:
            small, large = self._split_files()
            for files in (small, *([file] for file in large)):
                self._put_in_place(files, self._choose_rows(files, keep))

    def _split_files(self) -> tuple[list[DataFile], list[DataFile]]:
        """The files that are compacted when there are many of them, and the large ones, the oldest first."""
        snapshot = self.snapshot()
        files = sorted(snapshot.files.values() if snapshot else (), key=attrgetter("modified_ms"))
        return [file for file in files if file.size < LARGE_BYTES], [file for file in files if file.size >= LARGE_BYTES]

    def _choose_rows(self, files: Sequence[DataFile], keep: pc.Expression | None) -> pa.Table:
        rows = self.rows(files)
        return rows if keep is None else rows.filter(keep)

    def _put_in_place(self, files: Sequence[DataFile], rows: pa.Table) -> None:
        """Commit these rows as one file in the place of some others."""
        if self._log is None or not files:
            return
        now, new = now_ms(), list[DataFile]()
        if rows.num_rows:
            new.append(data_files.write(self._storage, rows, self._schema.names))
        for file in files:
            self._cached_rows.pop(file.path, None)
        # dataChange is false: streams that read the table see no row twice
        actions: list[Action] = [file.remove_action(now, data_change=False) for file in files]
        try:
            self._commit(self._log, [*actions, *(file.add_action(data_change=False) for file in new)], "OPTIMIZE")
        except ConflictError:
            # no retry: there are as many files in the next round
            self._storage.delete([file.path for file in new])

    def _compact_small(self, keep: pc.Expression | None) -> None:
        """Make the small files one, and delete the oldest of the large ones of which no row is kept any more."""
        small, large = self._split_files()
        if len(small) < COMPACT_AT_FILES:
            return
        self._put_in_place(small, self._choose_rows(small, keep))
        for file in large:
            # one at a time: together they may be more than fits into memory
            rows = self._choose_rows([file], keep)
            if rows.num_rows:
                return
            self._put_in_place([file], rows)

    def replace(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace all rows by these; raises RefusedError when another writer interferes."""
        with self._lock:
            snapshot = self.snapshot()
            if snapshot is None or self._log is None:
                return
            self._cached_rows.clear()
            now, one = now_ms(), data_files.write(self._storage, self._to_arrow(rows), self._schema.names)
            try:
                self._commit(
                    self._log,
                    [*(file.remove_action(now) for file in snapshot.files.values()), one.add_action()],
                    "WRITE",
                )
            except ConflictError:
                self._storage.delete([one.path])
                raise self._conflict_error() from None

    def rewrite(
        self, choose: Callable[[Snapshot], Sequence[DataFile]], change: Callable[[pa.Table], pa.Table], mark: Action
    ) -> None:
        """Change the rows of some files, which streams do not see.

        Raises RefusedError when another writer interferes.
        """
        with self._lock:
            snapshot = self.snapshot()
            assert snapshot is not None
            assert self._log is not None
            files = choose(snapshot)
            rows = change(self.rows(files))
            now, one = now_ms(), data_files.write(self._storage, rows, self._schema.names)
            removed = [file.remove_action(now, data_change=False) for file in files]
            try:
                self._commit(self._log, [*removed, one.add_action(data_change=False), mark], "WRITE")
            except ConflictError:
                self._storage.delete([one.path])
                raise self._conflict_error() from None
            if rows.nbytes <= CACHED_BYTES:
                self._cached_rows[one.path] = rows

    def maintain(self, past_hours: float, keep: pc.Expression | None = None) -> None:
        """Compact when there are many small files, write a checkpoint, and vacuum the past beyond `past_hours`.

        `keep`: the rows that stay. A large file stays whole as long as one of its rows does, and older ones go first.
        """
        with self._lock:
            self._compact_small(keep)
            if self._log is not None:
                # the toolkit reads its tables as they are now: the hours alone keep older versions
                retention = Retention(past_hours, self._log.snapshot.version)
                if due := take_due_checkpoint(self._log, retention.horizon_ms):
                    write_checkpoint(self._log, due)
                vacuum(self._log, retention)

    def _read(self, schema: pa.Schema, file: DataFile) -> pa.Table:
        """Read these columns of one file: those that it lacks are null."""
        if (known := self._cached_rows.get(file.path)) is not None:
            return known.select(schema.names)
        try:
            # files written before a column was added lack it
            there = pq.ParquetFile(self._storage.open(file.path))
            rows = there.read([name for name in schema.names if name in there.schema_arrow.names])
        except (OSError, ValueError) as error:
            if not (damage := describe_damage(error)):
                raise
            raise _lost_error(f"{self._storage.uri()}/{file.path} {damage}") from error
        return conform(rows, schema)

    def _to_arrow(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist([dict(row) for row in rows], self._schema)

    def _commit_once(self, log: DeltaLog, actions: list[Action], operation: str) -> None:
        try:
            log.commit(actions, operation)
        except ConflictError:
            # another process did the same at this moment: its commit serves as well
            log.refresh()
        self._log = log


def _lost_error(what: str) -> HistoryLostError:
    """The error of a damaged metadata table; nothing else has its content."""
    return HistoryLostError(what, "remove the lake, or name another path; then `cdc bootstrap` copies all of it")
