"""The dead letters of the lake's present tables: counted, applied after all, or dropped."""

from collections.abc import Collection, Sequence

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.blocked_keys import BlockedKeys
from cdc.core.errors import PreconditionError
from cdc.core.position import BEFORE_LOG
from cdc.core.table import TableName
from cdc.core.table_state import ACTIVE
from cdc.sinks.lake.apply.replay import ReplayPlan, plan_replay
from cdc.sinks.lake.apply.tables import LakeTable, LakeTables
from cdc.sinks.lake.delta.snapshot import TxnUpdate
from cdc.sinks.lake.history.histories import Histories
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cuts
from cdc.sinks.lake.metadata.dead_letters import DeadLetter, DeadLetters
from cdc.sinks.lake.table.commit import apply_effect


class TableDeadLetters:
    """The letters of present tables; those of former copies are void."""

    def __init__(self, lake: Lake, tables: LakeTables, cuts: Cuts, histories: Histories) -> None:
        self._app_id = lake.app_id
        self._histories = histories
        self._tables = tables
        self._cuts = cuts
        self._stored = DeadLetters(lake)

    def all(self) -> list[DeadLetter]:
        """All letters, in the log's order."""
        ids = {table.id for table in self._tables.all().values()}
        return [letter for letter in self._stored.all() if letter.table_id in ids]

    def look_again(self) -> None:
        """Read the letters anew on next use: another process may be the lake's writer."""
        self._stored.invalidate()

    def blocked_keys(self, table: LakeTable) -> BlockedKeys:
        """The keys of a table whose further messages wait."""
        return self._stored.blocked_keys(table.id)

    def count(self, table: LakeTable) -> int:
        """The number of a table's letters."""
        return self._stored.count(table.id)

    def count_blocked(self) -> dict[TableName, tuple[int, int]]:
        """Per table with blocked keys: number of keys, number of messages."""
        active = self._tables.select(*ACTIVE).items()
        counts = {name: (len(self.blocked_keys(table)), self.count(table)) for name, table in active}
        return {name: numbers for name, numbers in counts.items() if any(numbers)}

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """Store letters, each once however often its batch is repeated."""
        self._stored.add(letters)

    def replay(self, name: TableName, decoder: Decoder, given_up: Collection[bytes] = ()) -> ReplayPlan:
        """Apply a table's letters for all keys whose messages are readable now; returns the plan that was applied.

        Drops unreadable messages of keys in `given_up`. The next cut contains the result. Raises PreconditionError when
        the last cut lacks the table, and as `apply_effect` does.
        """
        table, last = self._tables.all()[name], self._cuts.last()
        if last is None or not table.is_in(last):
            # the changes between its copy and the cut would count as applied
            raise PreconditionError(f"{name} is in no cut of the lake yet", "run `cdc follow` first")
        # `cdc dead-letters` runs beside no follower, but others may have committed since
        table.writer.refresh()
        own = [letter for letter in self.all() if letter.table == name]
        reached = max(table.offset, last.position.end_offset)
        plan = plan_replay(table.table, own, reached, decoder, given_up)
        if plan.effect is not None and not plan.effect.is_empty:
            before = None if table.offset == BEFORE_LOG else table.offset
            apply_effect(table.writer, plan.effect, TxnUpdate(self._app_id, before, reached))
            # as it is now: the offset that the history moves to is the replay's
            self._histories.copy_again(self._tables.all()[name])
        # after the commits: a kill in between replays them again, onto the same rows
        self._stored.remove(plan.letters)
        return plan

    def drop(self, letters: Collection[DeadLetter]) -> None:
        """Delete letters without applying them."""
        self._stored.remove(letters)

    def maintain(self, hours: float) -> None:
        """Compact the letters and delete those of former copies."""
        self._stored.maintain(hours, self._tables.table_ids)
