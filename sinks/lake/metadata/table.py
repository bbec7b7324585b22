"""A small Delta table of the toolkit's own: rows are appended, now and then put together, and read whole."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc.columns.values.arrow_types import conform
from cdc.core.errors import HistoryLostError, RefusedError
from sinks.lake.delta import data_files
from sinks.lake.delta.checkpoint import due_checkpoint, write_checkpoint
from sinks.lake.delta.damage import damage_of
from sinks.lake.delta.log import Conflict, DeltaLog, LogDamagedError
from sinks.lake.delta.price import Price
from sinks.lake.delta.retention import Retention, forget
from sinks.lake.delta.schema import create_actions, metadata_action
from sinks.lake.delta.snapshot import Action, DataFile, Move, State, now_ms
from sinks.lake.storage.base import Storage, at_once

TOGETHER_EVERY = 200
"""Whoever reads the table opens all its files."""
TRIES = 20
CHECK_SECONDS = 60.0
"""Now and then it is looked whether the log goes on from here: its next commit may be one that is forgotten already."""
LOOK_SECONDS = 30.0
"""How often a writer looks on an object store for what others have written: each look is a request."""
REMEMBERED_BYTES = 16 * 1024
"""Rows of up to this size are kept until they are put together with others, which need not read their file then."""


class OwnTable:
    """Rows of one Arrow schema in a folder of the lake; safe to use from several threads.

    Other processes may write it, too: behind their commit, one of ours is tried again, or refused by its position. What
    they have written is looked for every `look_seconds`, with each question by default.
    """

    def __init__(self, storage: Storage, name: str, schema: pa.Schema, look_seconds: float = 0.0) -> None:
        self._storage = storage
        self._name = name
        self._schema = schema
        self._log: DeltaLog | None = None
        self._lock = threading.RLock()
        self._look_seconds = look_seconds
        self._looked = self._checked = float("-inf")
        self._rows: dict[str, pa.Table] = {}

    def prepare(self) -> None:
        """Make the table if it is not there, or give it the columns that it lacks."""
        with self._lock:
            state = self.state()
            wanted = metadata_action(self._name, self._schema, {}, state.table_id if state else None)
            if state is None:
                self._storage.make()
                log = DeltaLog(self._storage, State())
                self._committed(log, [*create_actions(self._name, self._schema, {})], "CREATE TABLE")
            elif state.metadata["schemaString"] != wanted["metaData"]["schemaString"]:
                assert self._log is not None
                self._committed(self._log, [wanted], "CHANGE COLUMNS")

    def state(self) -> State | None:
        """The table as it stands now; None when there is none."""
        with self._lock:
            now = time.monotonic()
            if self._log is None:
                self._log, self._looked, self._checked = self._newly_opened(), now, now
            elif now - self._looked >= self._look_seconds:
                self._looked = now
                self._look(self._log, now)
            return self._log.state if self._log else None

    def _look(self, log: DeltaLog, now: float) -> None:
        """Read what others have committed."""
        if log.refresh() or now - self._checked < CHECK_SECONDS:
            return
        self._checked = now
        if not log.is_there():
            self._log = self._newly_opened()

    def look(self) -> None:
        """Let the next question look for what others have written."""
        self._looked = float("-inf")

    def _newly_opened(self) -> DeltaLog | None:
        try:
            return DeltaLog.open(self._storage)
        except LogDamagedError as error:
            raise _lost(error.what) from error

    def price(self) -> Price:
        """What writing it costs."""
        with self._lock:
            self.state()
            return self._log.written.price() if self._log else Price()

    def append(self, rows: Sequence[Mapping[str, Any]], move: Move | None = None) -> None:
        """Add rows, with a move where there is one; raises RefusedError when another writer has made it before."""
        with self._lock:
            self.prepare()
            assert self._log is not None
            if move and not move.stands(self._log.state):
                raise self._moved()
            packed = self._packed(rows)
            added = data_files.write(self._storage, packed, self._schema.names)
            actions: list[Action] = [added.added()]
            if move:
                actions.append(move.action)
            # the same actions with every try: appended rows depend on nothing that another writer has done
            for _ in range(TRIES):
                try:
                    self._commit(self._log, actions, "WRITE")
                    if packed.nbytes <= REMEMBERED_BYTES:
                        self._rows[added.path] = packed
                    return
                except Conflict:
                    self._log.refresh()
                if move and not move.stands(self._log.state):
                    break
            raise self._moved()

    def commit(self, actions: Sequence[Action], operation: str) -> None:
        """Commit actions that do not depend on what the table holds; raises RefusedError when others keep it busy."""
        with self._lock:
            self.prepare()
            assert self._log is not None
            for _ in range(TRIES):
                try:
                    self._commit(self._log, actions, operation)
                    return
                except Conflict:
                    self._log.refresh()
            raise self._moved()

    def _commit(self, log: DeltaLog, actions: Sequence[Action], operation: str) -> None:
        """Raises Conflict, and HistoryLostError when the table is gone or was put back to an older state."""
        try:
            log.commit(actions, operation)
        except FileNotFoundError:
            # another process may go on from what is there
            self._log = None
            raise HistoryLostError(
                f"version {log.state.version} of {self._storage.uri()} is gone: the lake was removed, or put back to an"
                " older state",
                "start `cdc follow` again: it goes on from what is there",
            ) from None

    def _moved(self) -> RefusedError:
        return RefusedError(f"another writer has moved {self._storage.uri()}", "stop the other `cdc follow`")

    def rows(self, files: Sequence[DataFile] | None = None) -> pa.Table:
        """All rows, or those of some files."""
        state = self.state()
        wanted = files if files is not None else list(state.files.values()) if state else []
        parts = at_once(self._read, wanted)
        return pa.concat_tables(parts) if parts else self._schema.empty_table()

    def put_together(self, kept: pc.Expression | None = None) -> None:
        """Write all files as one, with those rows only that are to be kept; readers of a stream see no row again."""
        with self._lock:
            state = self.state()
            if state is None or self._log is None:
                return
            files = list(state.files.values())
            rows = self.rows(files)
            rows = rows if kept is None else rows.filter(kept)
            now = now_ms()
            one = data_files.write(self._storage, rows, self._schema.names)
            removed = [file.removed(now, data_change=False) for file in files]
            self._rows.clear()
            try:
                self._commit(self._log, [*removed, one.added(data_change=False)], "OPTIMIZE")
            except Conflict:
                self._storage.delete([one.path])

    def replace(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Let the table have these rows and no others. Raises RefusedError when somebody else writes it meanwhile."""
        with self._lock:
            state = self.state()
            if state is None or self._log is None:
                return
            self._rows.clear()
            now, one = now_ms(), data_files.write(self._storage, self._packed(rows), self._schema.names)
            try:
                self._commit(self._log, [*(file.removed(now) for file in state.files.values()), one.added()], "WRITE")
            except Conflict:
                self._storage.delete([one.path])
                raise self._moved() from None

    def maintain(self, past_hours: float, kept: pc.Expression | None = None) -> None:
        """Put the files together when there are many, write a checkpoint, and forget what is older."""
        with self._lock:
            state = self.state()
            if state is not None and len(state.files) >= TOGETHER_EVERY:
                self.put_together(kept)
            if self._log is not None:
                retention = Retention(past_hours, self._log.state.version)
                if due := due_checkpoint(self._log, retention.horizon_ms):
                    write_checkpoint(self._log, due)
                forget(self._log, retention)

    def _read(self, file: DataFile) -> pa.Table:
        if (known := self._rows.get(file.path)) is not None:
            return known
        try:
            there = pq.ParquetFile(self._storage.open(file.path))
            found = there.read([name for name in self._schema.names if name in there.schema_arrow.names])
        except (OSError, ValueError) as error:
            if not (damage := damage_of(error)):
                raise
            raise _lost(f"{self._storage.uri()}/{file.path} {damage}") from error
        return conform(found, self._schema)

    def _packed(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist([dict(row) for row in rows], self._schema)

    def _committed(self, log: DeltaLog, actions: list[Action], operation: str) -> None:
        try:
            log.commit(actions, operation)
        except Conflict:
            log.refresh()
        self._log = log


def _lost(what: str) -> HistoryLostError:
    """What the lake knows of itself stands in its own tables, and nowhere else."""
    return HistoryLostError(what, "remove the lake, or name another path; then `cdc bootstrap` copies all of it")
