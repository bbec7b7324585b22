"""A batch taken in by the tables that it touches; what cannot be is kept, and holds its key, or stops its table."""

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
from sinks.lake.apply.replay import Replay, replay
from sinks.lake.apply.tables import Standing, Standings
from sinks.lake.delta.snapshot import Move
from sinks.lake.feed.change_cache import RecentChanges
from sinks.lake.layout import Lake
from sinks.lake.metadata.dead_letters import MOST, DeadLetter, DeadLetters
from sinks.lake.metadata.stopped_tables import Stop, again
from sinks.lake.metadata.table import LOOK_SECONDS
from sinks.lake.pace import Cost
from sinks.lake.settings import DeltaSettings
from sinks.lake.table import commit as write
from sinks.lake.table.writer import LiveTable

Stopping = Callable[[Mapping[TableName, str], Collection[TableName]], Sequence[Stop]]
"""Stops tables, each for a reason; these of them are to be copied again."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a batch did not take in: tables that it stopped, and tables of which it left keys held: how many are held
    there, with how many messages. `told`: what there is to say beside that."""

    stopped: Sequence[Stop]
    held: Mapping[TableName, tuple[int, int]]
    told: Sequence[str] = ()


class Intake:
    """Applies batches to tables, each in a commit of its own; `recent` is told what was written."""

    def __init__(
        self, settings: DeltaSettings, lake: Lake, standings: Standings, recent: RecentChanges, stop: Stopping
    ) -> None:
        self._settings = settings
        self._lake = lake
        self._standings = standings
        self._recent = recent
        self._stop = stop
        self._dead_letters = DeadLetters(lake)
        self._stopped: list[Stop] = []
        self._look_seconds = 0.0 if lake.access is None else LOOK_SECONDS
        self._looked: WeakKeyDictionary[LiveTable, float] = WeakKeyDictionary()
        self.cost = Cost()
        """What the last batch's commits have written."""
        self._touched: set[TableName] = set()

    def left(self) -> Left:
        """What the batches since the last question have left."""
        stopped, touched, self._stopped, self._touched = self._stopped, self._touched, [], set()
        held = {name: counts for name, counts in self.held().items() if name in touched} if touched else {}
        return Left(stopped, held, [line for _, live in self._standings.opened() for line in _taken(live.told)])

    def apply(self, batch: ChangeBatch, standings: Mapping[TableName, Standing], version: int) -> None:
        """Apply a batch to these tables; `version` is the offset of its last END. Raises what ends everything."""
        touched = [name for name in batch.tables if name in standings]
        # first what other hands have committed: what a table lacks is asked of it as it stands now
        failures = [(name, self._look(standings[name])) for name in touched]
        self._stop_for(failures)
        fit = [name for name, failure in failures if failure is None]
        found = [s for s in map(self._standings.of, fit) if s and s.applied(batch.ends) < batch.ends.offset[-1]]
        # as they are now: what this batch adds waits within it by the order of its messages
        work = self._readable(batch, [(s, self._dead_letters.held(s.live.state.table_id)) for s in found])
        with ThreadPoolExecutor(self._settings.parallel_tables) as threads:
            # who leaves this block has waited for all of them, also behind the first failure: none writes on unseen
            futures = [threads.submit(self._apply_table, batch, *each, version) for each in work]
        self._stop_for([(s.table.name, future.exception()) for (s, _), future in zip(work, futures, strict=True)])
        self.cost = sum((future.result() for future in futures if not future.exception()), Cost())

    def _look(self, standing: Standing) -> BaseException | None:
        """Read what other hands have committed; gives why the table cannot go on. On an object store nobody else may
        write, and each look is a request: there a commit that finds another one in its place looks, too."""
        now = time.monotonic()
        if now - self._looked.get(standing.live, float("-inf")) < self._look_seconds:
            return None
        self._looked[standing.live] = now
        return _refreshed(standing)

    def _stop_for(self, failures: Iterable[tuple[TableName, BaseException | None]]) -> None:
        """Stop the tables that contradict their changes, and those that are lost, which are copied again; whatever else
        was raised ends everything."""
        reasons, lost = {}, {}
        for name, error in failures:
            if isinstance(error, TableLostError):
                lost[name] = error.why
            elif isinstance(error, DivergenceError) and self._settings.on_refusal == "hold":
                reasons[name] = error.what.removeprefix(f"{name}: ")
            elif error:
                raise error
        self._stop_all(reasons | lost, lost)

    def _stop_all(self, reasons: Mapping[TableName, str], copy: Collection[TableName] = ()) -> None:
        if reasons:
            self._stopped += self._stop(reasons, copy)

    def _readable(
        self, batch: ChangeBatch, work: Sequence[tuple[Standing, BlockedKeys]]
    ) -> list[tuple[Standing, BlockedKeys]]:
        """The tables that can be applied. What is not is kept, before anything of the batch is applied: its keys are
        held, where it has any; else the table is stopped, or everything is."""
        refused = {s.table.name: batch.find_refused(s.table, s.applied(batch.ends), held) for s, held in work}
        if not any(refused.values()):
            return list(work)
        self._keep(batch, {s.live.state.table_id: (s.table.name, refused[s.table.name]) for s, _ in work})
        reasons = {
            s.table.name: _told(refused[s.table.name]) for s, _ in work if not _holds(s.table, refused[s.table.name])
        }
        unread = {name: [each for each in found if not each.waits] for name, found in refused.items()}
        for name, found in unread.items():
            if found and self._settings.on_refusal == "stop":
                raise PreconditionError(f"{name}: {_told(found)}; nothing of the batch was applied", again(name))
        self._stop_all(reasons)
        self._touched |= {name for name, found in refused.items() if found}
        return [(standing, held) for standing, held in work if standing.table.name not in reasons]

    def _keep(self, batch: ChangeBatch, refused: Mapping[str, tuple[TableName, Sequence[RefusedMessage]]]) -> None:
        ranks = Ranks.of(batch.ends)
        self._dead_letters.add(
            [
                DeadLetter(id, name, each, ranks.place(each.tx_id))
                for id, (name, found) in refused.items()
                for each in found[:MOST]
            ]
        )

    def _apply_table(self, batch: ChangeBatch, standing: Standing, held: BlockedKeys, version: int) -> Cost:
        effect = batch.effect(standing.table, standing.applied(batch.ends), held)
        if effect.is_empty:
            return Cost()
        if effect.net.truncated and self.holds(standing):
            raise DivergenceError(
                f"{standing.table.name}: TRUNCATE, while keys of it are held", "`cdc bootstrap --again` copies it"
            )
        live = standing.live
        before = None if standing.offset == BEFORE_LOG else standing.offset
        applied = write.apply(live, effect, Move(self._lake.app_id, before, version))
        if applied.changes is not None:
            self._recent.put(live.state.table_id, applied.version, applied.changes)
        return applied.cost

    def held(self) -> dict[TableName, tuple[int, int]]:
        """The tables of which changes wait: how many keys are held, and how many messages lie there."""
        ids = {s.table.name: s.live.state.table_id for s in self._standings.going().values()}
        found = {name: (len(self._dead_letters.held(id)), self._dead_letters.count(id)) for name, id in ids.items()}
        return {name: counts for name, counts in found.items() if any(counts)}

    def letters(self) -> list[DeadLetter]:
        """The dead letters of the tables as they are now; those of a former copy are void."""
        ids = {s.live.state.table_id for s in self._standings.all().values()}
        return [letter for letter in self._dead_letters.all() if letter.table_id in ids]

    def replay(self, name: TableName, reached: int, decoder: Decoder, given_up: Collection[bytes] = ()) -> Replay:
        """Apply a table's dead letters, those of the keys of which all can be read; of keys that are `given_up`, what
        cannot be is dropped. The table is in the last cut, and has all up to its END, at the offset `reached`; the next
        cut has this. Raises as `write.apply` does."""
        standing = self._standings.all()[name]
        standing.live.refresh()
        own = [letter for letter in self.letters() if letter.table == name]
        reached = max(standing.offset, reached)
        found = replay(standing.table, own, reached, decoder, given_up)
        if found.effect is not None and not found.effect.is_empty:
            before = None if standing.offset == BEFORE_LOG else standing.offset
            write.apply(standing.live, found.effect, Move(self._lake.app_id, before, reached))
        # behind the commit: whoever is killed in between replays them again, over the same rows
        self._dead_letters.remove(found.letters)
        return found

    def drop(self, letters: Collection[DeadLetter]) -> None:
        """Forget letters, which are applied to nothing."""
        self._dead_letters.remove(letters)

    def maintain(self, hours: float) -> None:
        """Keep the dead letters quick to read; those of former copies go with time."""
        self._dead_letters.maintain(hours, self._standings.ids)

    def holds(self, standing: Standing) -> bool:
        """Do changes of some of its keys wait?"""
        return bool(self._dead_letters.held(standing.live.state.table_id))


def _refreshed(standing: Standing) -> BaseException | None:
    """What keeps a table from being written on, by what other hands have committed."""
    try:
        standing.live.refresh()
    except TableLostError as error:
        return error
    return None


def _taken(lines: list[str]) -> list[str]:
    taken, lines[:] = [*lines], []
    return taken


def _holds(table: Table, refused: Sequence[RefusedMessage]) -> bool:
    """Can the keys of these messages be held, and no more of the table?"""
    return len(refused) <= MOST and all(each.key is not None and table.key for each in refused)


def _told(refused: Sequence[RefusedMessage]) -> str:
    unread = [each for each in refused if not each.waits] or refused
    return f"{format_count(len(unread), 'message')} cannot be read, first {unread[0].refusal} (`cdc dead-letters list`)"
