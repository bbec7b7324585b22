"""Apply a batch to the tables that it touches; set unreadable messages aside, or stop their tables."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from cdc.columns.netting.batch import ChangeBatch, Ranks, TablePart
from cdc.columns.netting.changes import RefusedMessage
from cdc.columns.netting.ends import Ends
from cdc.core.errors import DivergenceError, PreconditionError, TableLostError
from cdc.core.fail_points import reach
from cdc.core.position import BEFORE_LOG
from cdc.core.table import TableName
from cdc.core.text.plural import format_count
from cdc.sinks.lake.apply.table_dead_letters import TableDeadLetters
from cdc.sinks.lake.apply.tables import LakeTable, LakeTables
from cdc.sinks.lake.delta.snapshot import TxnUpdate
from cdc.sinks.lake.feed.change_cache import ChangeCache, RecentChanges
from cdc.sinks.lake.history.histories import Histories
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.dead_letters import MAX_MESSAGES, DeadLetter
from cdc.sinks.lake.metadata.stopped_tables import StoppedTable, recopy_remedy
from cdc.sinks.lake.metadata.table import REFRESH_SECONDS
from cdc.sinks.lake.pace import CommitCost
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.lake.table.commit import apply_effect
from cdc.sinks.lake.table.writer import TableWriter

TableWork = tuple[LakeTable, TablePart]
"""A table, and the part of a batch that it lacks."""


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """Tables that a batch stopped, and per table of which it blocked keys: how many keys, and by how many messages.

    `notes`: lines to log. `cost`: of its commits.
    """

    stopped: Sequence[StoppedTable] = ()
    blocked: Mapping[TableName, tuple[int, int]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    cost: CommitCost = field(default_factory=CommitCost)


class BatchApplier:
    """Applies batches to tables, one commit per table; puts the written changes into `recent`."""

    def __init__(
        self,
        settings: DeltaSettings,
        lake: Lake,
        tables: LakeTables,
        letters: TableDeadLetters,
        histories: Histories,
        recent: ChangeCache,
    ) -> None:
        self._settings = settings
        self._lake = lake
        self._tables = tables
        self._letters = letters
        self._histories = histories
        self._recent = recent
        self._refresh_seconds = 0.0 if lake.access is None else REFRESH_SECONDS
        self._refreshed_at: WeakKeyDictionary[TableWriter, float] = WeakKeyDictionary()

    def apply(self, batch: ChangeBatch, tables: Mapping[TableName, LakeTable], version: int) -> AppliedBatch:
        """Apply a batch to these tables; `version`: offset of its last END. Raises errors that stop all tables."""
        touched = [name for name in batch.tables if name in tables]
        # read other writers' commits first: what to apply depends on the table's state
        failures = [(name, self._refresh(tables[name])) for name in touched]
        stopped = self._stop_failed(failures)
        # only tables without a failure; a stop removes the others from the cuts
        work = self._take_parts(batch, [name for name, failure in failures if failure is None])
        with_refused = {table.table.name for table, part in work if part.refused}
        without_keys = self._set_aside_refused(batch, work)
        stopped += self._tables.stop(without_keys) if without_keys else []
        work = [(table, part) for table, part in work if table.table.name not in without_keys]
        with ThreadPoolExecutor(self._settings.parallel_tables) as threads:
            # leaving this block waits for all threads, even after a failure: no thread goes on writing unseen
            futures = [threads.submit(self._apply_part, *item, batch.ends, version) for item in work]
        # after all threads: one table's stop must not leave another's commit half done
        stopped += self._stop_failed([(s.table.name, f.exception()) for (s, _), f in zip(work, futures, strict=True)])
        cost = sum((future.result() for future in futures if not future.exception()), CommitCost())
        return AppliedBatch(stopped, self._count_blocked(with_refused), self._take_notes(), cost)

    def _take_parts(self, batch: ChangeBatch, names: Iterable[TableName]) -> list[TableWork]:
        """The parts of a batch that these tables lack."""
        tables = filter(None, map(self._tables.find, names))
        # a table may be ahead of the batch: its copy is newer, or a killed run committed it
        behind = [(s, after) for s in tables if (after := s.last_applied(batch.ends)) < batch.ends.offset[-1]]
        # the blocked keys before this batch; within the batch, the order of its messages decides
        return [(s, batch.take(s.table, after, self._letters.blocked_keys(s))) for s, after in behind]

    def _count_blocked(self, names: Collection[TableName]) -> Mapping[TableName, tuple[int, int]]:
        counts = self._letters.count_blocked() if names else {}
        return {name: numbers for name, numbers in counts.items() if name in names}

    def _take_notes(self) -> list[str]:
        return [line for _, writer in self._tables.list_open() for line in _drain(writer.rows.notes)]

    def _refresh(self, table: LakeTable) -> BaseException | None:
        """Read other writers' commits; returns the error that prevents further writes.

        On an object store nobody else may write, and each look is a request. There, a commit that meets another one
        refreshes.
        """
        now = time.monotonic()
        if now - self._refreshed_at.get(table.writer, float("-inf")) < self._refresh_seconds:
            return None
        self._refreshed_at[table.writer] = now
        try:
            table.writer.refresh()
        except TableLostError as error:
            return error
        return None

    def _stop_failed(self, failures: Iterable[tuple[TableName, BaseException | None]]) -> list[StoppedTable]:
        """Stop tables that contradict their changes, and lost ones, which get a copy; then raise any other failure."""
        reasons, lost, others = {}, {}, list[BaseException]()
        for name, error in failures:
            # a lost table's rows cannot be trusted, so only a copy helps; one that contradicts its changes waits for
            # the user
            if isinstance(error, TableLostError):
                lost[name] = error.why
            elif isinstance(error, DivergenceError) and self._settings.on_refusal == "hold":
                reasons[name] = error.what.removeprefix(f"{name}: ")
            elif error:
                others.append(error)
        stopped = self._tables.stop(reasons | lost, lost) if reasons or lost else []
        if others:
            # without the stops, which are stored: who starts again finds them there
            raise others[0]
        return stopped

    def _set_aside_refused(self, batch: ChangeBatch, work: Sequence[TableWork]) -> dict[TableName, str]:
        """Store refused messages before anything is applied; returns the tables that they stop, with reasons.

        A message with a key blocks its key. Without one it stops its table, or everything with `on_refusal: stop`.
        """
        refused = [(table, part.refused) for table, part in work if part.refused]
        if not refused:
            return {}
        # before any table applies the batch: a kill after that must not lose a message
        ranks = Ranks.of(batch.ends)
        self._letters.add(
            [
                DeadLetter(table.id, table.table.name, message, ranks.place(message.tx_id))
                for table, messages in refused
                for message in messages[:MAX_MESSAGES]
            ]
        )
        for table, messages in refused:
            unread = [message for message in messages if not message.waits]
            if unread and self._settings.on_refusal == "stop":
                name = table.table.name
                raise PreconditionError(
                    f"{name}: {_describe_refused(unread)}; nothing of the batch was applied", recopy_remedy(name)
                )
        reasons = {table.table.name: self._find_stop(table, messages) for table, messages in refused}
        return {name: reason for name, reason in reasons.items() if reason}

    def _find_stop(self, table: LakeTable, refused: Sequence[RefusedMessage]) -> str | None:
        """Why these messages, which are stored, stop their table; None when they block just their keys."""
        if len(refused) > MAX_MESSAGES or self._letters.count(table) > MAX_MESSAGES:
            return f"more than {MAX_MESSAGES:,} messages would wait; {_describe_refused(refused)}"
        if all(message.key is not None and table.table.key for message in refused):
            return None
        return _describe_refused(refused)

    def _apply_part(self, table: LakeTable, part: TablePart, ends: Ends, version: int) -> CommitCost:
        effect = part.effect()
        # before the table's rows: unsent values are taken from those of before the batch
        self._histories.add(table, part.changes, ends, version)
        reach("lake.history.committed")
        if effect.is_empty:
            return CommitCost()
        # the blocked messages came before the TRUNCATE: replayed after it, they would revive rows
        if effect.net.truncated and self._letters.blocked_keys(table):
            raise DivergenceError(
                f"{table.table.name}: TRUNCATE, while keys of it are held", "`cdc bootstrap --again` copies it"
            )
        writer = table.writer
        before = None if table.offset == BEFORE_LOG else table.offset
        applied = apply_effect(writer, effect, TxnUpdate(self._lake.app_id, before, version))
        reach("lake.table.committed")
        if applied.changes is not None:
            changes = RecentChanges(applied.changes, applied.file_bytes)
            self._recent.put(table.id, applied.version, changes)
        return applied.cost


def _drain(lines: list[str]) -> list[str]:
    drained, lines[:] = [*lines], []
    return drained


def _describe_refused(refused: Sequence[RefusedMessage]) -> str:
    unread = [message for message in refused if not message.waits] or refused
    return f"{format_count(len(unread), 'message')} cannot be read, first {unread[0].refusal} (`cdc dead-letters list`)"
