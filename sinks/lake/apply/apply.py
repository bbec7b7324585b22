"""Apply a batch to the tables that it touches; set unreadable messages aside, or stop their tables."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import ChangeBatch, Ranks
from cdc.columns.netting.blocked_keys import BlockedKeys
from cdc.columns.netting.changes import RefusedMessage
from cdc.core.errors import DivergenceError, PreconditionError, TableLostError
from cdc.core.plural import format_count
from cdc.core.position import BEFORE_LOG
from cdc.core.table import Table, TableName
from sinks.lake.apply.replay import ReplayPlan, plan_replay
from sinks.lake.apply.tables import FollowedTable, FollowedTables
from sinks.lake.delta.snapshot import TxnUpdate
from sinks.lake.feed.change_cache import ChangeCache
from sinks.lake.layout import Lake
from sinks.lake.metadata.dead_letters import MAX_MESSAGES, DeadLetter, DeadLetters
from sinks.lake.metadata.stopped_tables import StoppedTable, recopy_remedy
from sinks.lake.metadata.table import REFRESH_SECONDS
from sinks.lake.pace import CommitCost
from sinks.lake.settings import DeltaSettings
from sinks.lake.table.commit import apply_effect
from sinks.lake.table.writer import TableWriter

StopTables = Callable[[Mapping[TableName, str], Collection[TableName]], Sequence[StoppedTable]]
"""Stops tables, each for a reason; copies those in the second argument again."""


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """Tables that batches stopped, and per table how many keys are blocked by how many messages; `notes` are lines to
    log.

    The counts are (keys, messages).
    """

    stopped: Sequence[StoppedTable]
    blocked: Mapping[TableName, tuple[int, int]]
    notes: Sequence[str] = ()


class BatchApplier:
    """Applies batches to tables, one commit per table; puts the written changes into `recent`."""

    def __init__(
        self, settings: DeltaSettings, lake: Lake, tables: FollowedTables, recent: ChangeCache, stop: StopTables
    ) -> None:
        self._settings = settings
        self._lake = lake
        self._tables = tables
        self._recent = recent
        self._stop = stop
        self._dead_letters = DeadLetters(lake)
        self._new_stops: list[StoppedTable] = []
        self._refresh_seconds = 0.0 if lake.access is None else REFRESH_SECONDS
        self._refreshed_at: WeakKeyDictionary[TableWriter, float] = WeakKeyDictionary()
        self.cost = CommitCost()
        """The cost of the last batch's commits."""
        self._blocked: set[TableName] = set()

    def take_report(self) -> ApplyReport:
        """The report of all batches since the last call."""
        stopped, touched, self._new_stops, self._blocked = self._new_stops, self._blocked, [], set()
        blocked = {name: counts for name, counts in self.count_blocked().items() if name in touched} if touched else {}
        return ApplyReport(
            stopped, blocked, [line for _, writer in self._tables.list_open() for line in _drain(writer.rows.notes)]
        )

    def apply(self, batch: ChangeBatch, tables: Mapping[TableName, FollowedTable], version: int) -> None:
        """Apply a batch to these tables; `version`: offset of its last END. Raises errors that stop all tables."""
        touched = [name for name in batch.tables if name in tables]
        # read other writers' commits first: what to apply depends on the table's state
        failures = [(name, self._refresh(tables[name])) for name in touched]
        self._stop_failed(failures)
        # only tables without a failure; a stop removes the others from the cuts
        fit = [name for name, failure in failures if failure is None]
        # a table may be ahead of the batch: its copy is newer, or a killed run committed it
        behind = [s for s in map(self._tables.find, fit) if s and s.last_applied(batch.ends) < batch.ends.offset[-1]]
        # the blocked keys before this batch; within the batch, the order of its messages decides
        work = self._set_aside_refused(
            batch, [(s, self._dead_letters.blocked_keys(s.writer.snapshot.table_id)) for s in behind]
        )
        with ThreadPoolExecutor(self._settings.parallel_tables) as threads:
            # leaving this block waits for all threads, even after a failure: no thread goes on writing unseen
            futures = [threads.submit(self._apply_table, batch, *item, version) for item in work]
        # after all threads: one table's stop must not leave another's commit half done
        self._stop_failed([(s.table.name, future.exception()) for (s, _), future in zip(work, futures, strict=True)])
        self.cost = sum((future.result() for future in futures if not future.exception()), CommitCost())

    def _refresh(self, table: FollowedTable) -> BaseException | None:
        """Read other writers' commits; returns the error that prevents further writes.

        On an object store nobody else may write, and each look is a request. There, a commit that meets another one
        refreshes.
        """
        now = time.monotonic()
        if now - self._refreshed_at.get(table.writer, float("-inf")) < self._refresh_seconds:
            return None
        self._refreshed_at[table.writer] = now
        return _find_failure(table)

    def _stop_failed(self, failures: Iterable[tuple[TableName, BaseException | None]]) -> None:
        """Stop tables that contradict their changes, and lost ones, which get a new copy; raise any other error."""
        reasons, lost = {}, {}
        for name, error in failures:
            # a lost table's rows cannot be trusted, so only a copy helps; one that contradicts its changes waits for
            # the user
            if isinstance(error, TableLostError):
                lost[name] = error.why
            elif isinstance(error, DivergenceError) and self._settings.on_refusal == "hold":
                reasons[name] = error.what.removeprefix(f"{name}: ")
            elif error:
                raise error
        self._stop_all(reasons | lost, lost)

    def _stop_all(self, reasons: Mapping[TableName, str], copy: Collection[TableName] = ()) -> None:
        if reasons:
            self._new_stops += self._stop(reasons, copy)

    def _set_aside_refused(
        self, batch: ChangeBatch, work: Sequence[tuple[FollowedTable, BlockedKeys]]
    ) -> list[tuple[FollowedTable, BlockedKeys]]:
        """Store refused messages before applying anything; returns the tables that can go on, with their blocked keys.

        A message with a key blocks its key. Without one it stops its table, or everything with `on_refusal: stop`.
        """
        refused = {
            s.table.name: batch.find_refused(s.table, s.last_applied(batch.ends), blocked) for s, blocked in work
        }
        if not any(refused.values()):
            return list(work)
        # before any table applies the batch: a kill after that must not lose a message. A repeated batch stores each
        # letter once
        self._store_letters(batch, {s.writer.snapshot.table_id: (s.table.name, refused[s.table.name]) for s, _ in work})
        reasons = {
            s.table.name: _describe_refused(refused[s.table.name])
            for s, _ in work
            if not _can_block(s.table, refused[s.table.name])
        }
        unread = {name: [message for message in messages if not message.waits] for name, messages in refused.items()}
        for name, messages in unread.items():
            if messages and self._settings.on_refusal == "stop":
                raise PreconditionError(
                    f"{name}: {_describe_refused(messages)}; nothing of the batch was applied", recopy_remedy(name)
                )
        self._stop_all(reasons)
        self._blocked |= {name for name, messages in refused.items() if messages}
        return [(table, blocked) for table, blocked in work if table.table.name not in reasons]

    def _store_letters(
        self, batch: ChangeBatch, refused: Mapping[str, tuple[TableName, Sequence[RefusedMessage]]]
    ) -> None:
        ranks = Ranks.of(batch.ends)
        self._dead_letters.add(
            [
                DeadLetter(id, name, message, ranks.place(message.tx_id))
                for id, (name, messages) in refused.items()
                for message in messages[:MAX_MESSAGES]
            ]
        )

    def _apply_table(self, batch: ChangeBatch, table: FollowedTable, blocked: BlockedKeys, version: int) -> CommitCost:
        effect = batch.effect(table.table, table.last_applied(batch.ends), blocked)
        if effect.is_empty:
            return CommitCost()
        # the blocked messages came before the TRUNCATE: replayed after it, they would revive rows
        if effect.net.truncated and self.has_blocked_keys(table):
            raise DivergenceError(
                f"{table.table.name}: TRUNCATE, while keys of it are held", "`cdc bootstrap --again` copies it"
            )
        writer = table.writer
        before = None if table.offset == BEFORE_LOG else table.offset
        applied = apply_effect(writer, effect, TxnUpdate(self._lake.app_id, before, version))
        if applied.changes is not None:
            self._recent.put(writer.snapshot.table_id, applied.version, applied.changes)
        return applied.cost

    def count_blocked(self) -> dict[TableName, tuple[int, int]]:
        """Per table with blocked keys: number of keys, number of messages."""
        ids = {s.table.name: s.writer.snapshot.table_id for s in self._tables.active().values()}
        counts_by_name = {
            name: (len(self._dead_letters.blocked_keys(id)), self._dead_letters.count(id)) for name, id in ids.items()
        }
        return {name: counts for name, counts in counts_by_name.items() if any(counts)}

    def letters(self) -> list[DeadLetter]:
        """The dead letters of the present tables; letters of former copies are void."""
        ids = {s.writer.snapshot.table_id for s in self._tables.all().values()}
        return [letter for letter in self._dead_letters.all() if letter.table_id in ids]

    def replay_letters(
        self, name: TableName, reached: int, decoder: Decoder, given_up: Collection[bytes] = ()
    ) -> ReplayPlan:
        """Apply a table's dead letters for all keys whose messages are readable now; returns the plan that was applied.

        Drops unreadable messages of keys in `given_up`. The table must be in the last cut and complete up to the END at
        offset `reached`; the next cut contains the result. Raises as `apply_effect` does.
        """
        table = self._tables.all()[name]
        # `cdc dead-letters` runs beside no follower, but others may have committed since
        table.writer.refresh()
        own = [letter for letter in self.letters() if letter.table == name]
        reached = max(table.offset, reached)
        plan = plan_replay(table.table, own, reached, decoder, given_up)
        if plan.effect is not None and not plan.effect.is_empty:
            before = None if table.offset == BEFORE_LOG else table.offset
            apply_effect(table.writer, plan.effect, TxnUpdate(self._lake.app_id, before, reached))
        # after the commit: a kill in between replays them again, onto the same rows
        self._dead_letters.remove(plan.letters)
        return plan

    def drop_letters(self, letters: Collection[DeadLetter]) -> None:
        """Delete letters without applying them."""
        self._dead_letters.remove(letters)

    def maintain(self, hours: float) -> None:
        """Compact the dead letters and delete those of former copies."""
        self._dead_letters.maintain(hours, self._tables.table_ids)

    def has_blocked_keys(self, table: FollowedTable) -> bool:
        """Whether some keys of the table are blocked."""
        return bool(self._dead_letters.blocked_keys(table.writer.snapshot.table_id))


def _find_failure(table: FollowedTable) -> BaseException | None:
    """The error that prevents further writes to a table, after other writers' commits."""
    try:
        table.writer.refresh()
    except TableLostError as error:
        return error
    return None


def _drain(lines: list[str]) -> list[str]:
    drained, lines[:] = [*lines], []
    return drained


def _can_block(table: Table, refused: Sequence[RefusedMessage]) -> bool:
    """Whether these messages can block just their keys."""
    return len(refused) <= MAX_MESSAGES and all(message.key is not None and table.key for message in refused)


def _describe_refused(refused: Sequence[RefusedMessage]) -> str:
    unread = [message for message in refused if not message.waits] or refused
    return f"{format_count(len(unread), 'message')} cannot be read, first {unread[0].refusal} (`cdc dead-letters list`)"
