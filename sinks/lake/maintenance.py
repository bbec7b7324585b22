"""Maintenance of all of a lake's tables, as far as followers behind the lake allow it."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from cdc.core.errors import HistoryLostError
from cdc.core.position import Position
from cdc.core.table import TableName
from cdc.sinks.lake.apply.table_dead_letters import TableDeadLetters
from cdc.sinks.lake.delta.retention import Retention
from cdc.sinks.lake.metadata.cuts import Cut, Cuts, oldest_needed_version
from cdc.sinks.lake.table.maintenance import maintain
from cdc.sinks.lake.table.writer import TableWriter

IDLE_SECONDS: Final = 300.0
"""How often maintenance visits a table without changes."""


class OpenTables(Protocol):
    """Tables with their writers: those of the lake, its histories, its views."""

    def list_open(self) -> list[tuple[TableName, TableWriter]]:
        """The tables opened so far."""


class LakeMaintenance:
    """Compacts and vacuums tables, cuts and dead letters; keeps `hours` of their past. Views have no dead letters."""

    def __init__(
        self, tables: Sequence[OpenTables], cuts: Cuts, letters: TableDeadLetters | None, hours: float
    ) -> None:
        self._tables = tables
        self._cuts = cuts
        self._letters = letters
        self._hours = hours
        # version and time of each table's last maintenance
        self._maintained: dict[TableName, tuple[int, float]] = {}
        # where followers stood in the last round: most stand there still, and each search is a request
        self._found: dict[int, Cut] = {}

    def run(self, needed: Iterable[Position]) -> None:
        """Maintain all tables. `needed`: the positions of followers behind, whose past is kept.

        May run in another thread, beside the one that applies batches. What happens to one table keeps none of the
        others from their upkeep: HistoryLostError and OSError are raised at the end.
        """
        # versions before the last cut: later cuts never have older ones. A list, since the applying thread opens tables
        # meanwhile
        writers = [pair for tables in self._tables for pair in tables.list_open()]
        opened = [(name, writer, writer.snapshot.version) for name, writer in writers]
        last = self._cuts.last()
        if last is None:
            return
        cuts = self._find_cuts(needed)
        behind = [cut for cut in cuts if cut.position.end_offset < last.position.end_offset]
        kept = {name: oldest_needed_version(str(name), behind, last, version) for name, _, version in opened}
        due = ((writer, kept[name]) for name, writer, _ in opened if self._is_due(name, writer))
        oldest = min((cut.position.end_offset for cut in cuts), default=None)
        failures = [failure for task in self._list_tasks(due, oldest) if (failure := _try(task))]
        if failures:
            raise failures[0]

    def _list_tasks(self, due: Iterable[tuple[TableWriter, int]], oldest: int | None) -> Iterator[Callable[[], object]]:
        """The tasks of a round. `due`: tables, each with the oldest version to keep; `oldest`: the cut to keep."""
        for writer, since in due:
            yield partial(maintain, writer, Retention(self._hours, since))
        yield partial(self._cuts.maintain, self._hours, oldest)
        if self._letters is not None:
            yield partial(self._letters.maintain, self._hours)

    def _find_cuts(self, positions: Iterable[Position]) -> list[Cut]:
        offsets = {position.end_offset for position in positions}
        found = {offset: self._found.get(offset) or self._cuts.find(offset) for offset in offsets}
        self._found = {offset: cut for offset, cut in found.items() if cut}
        return [*self._found.values()]

    def _is_due(self, name: TableName, writer: TableWriter) -> bool:
        """Whether the table changed since its last maintenance, or IDLE_SECONDS passed: idle tables age, too."""
        version, moment = self._maintained.get(name, (-1, float("-inf")))
        due = writer.snapshot.version != version or time.monotonic() - moment > IDLE_SECONDS
        if due:
            self._maintained[name] = (writer.snapshot.version, time.monotonic())
        return due


def _try(task: Callable[[], object]) -> HistoryLostError | OSError | None:
    """Do a task; returns what is lost or cannot be read there. A lost table is stopped by the batch that meets it."""
    try:
        task()
    except (HistoryLostError, OSError) as failure:
        return failure
    return None
