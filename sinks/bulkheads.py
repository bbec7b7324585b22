"""The bulkhead around each table or saved search of a follower: what one meets stops that one, and the others go on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from cdc.core.containment import contain_errors
from cdc.core.errors import CdcError, TableStoppedError
from cdc.core.table import Table, TableName

Stops = Mapping[TableName, TableStoppedError]
"""The stopped tables of a follower, each with the reason."""
REMEDY: Final = "see the log; `cdc follow` tries to copy it again from the lake by itself"
Item = TypeVar("Item", Table, TableName)


@dataclass(frozen=True, slots=True)
class TableBulkhead:
    """Does the same work for several tables of a follower, `at_once` of them at a time.

    A table whose work fails is stopped: by its own TableStoppedError, or by one line about any other error, whose
    traceback is logged. An error of `shared`, and any other of ours, is of the follower as a whole: it is raised, once
    no table's work goes on.
    """

    follower: str
    shared: tuple[type[Exception], ...] = ()
    at_once: int = 1

    def collect(self, work: Callable[[Item], None], items: Iterable[Item]) -> dict[TableName, TableStoppedError]:
        """Do the work for each table; returns those that stop."""
        named = [(_name_of(table), partial(work, table)) for table in items]
        found = self._attempt_together(named) if self.at_once > 1 else [self._attempt(*each) for each in named]
        return {name: stop for (name, _), stop in zip(named, found, strict=True) if stop}

    def _attempt_together(
        self, named: Sequence[tuple[TableName, Callable[[], None]]]
    ) -> list[TableStoppedError | None]:
        with ThreadPoolExecutor(self.at_once) as threads:
            # leaving the block waits for all of them: no thread goes on unseen after an error
            futures = [threads.submit(self._attempt, *each) for each in named]
        return [future.result() for future in futures]

    def _attempt(self, name: TableName, work: Callable[[], None]) -> TableStoppedError | None:
        stops = list[TableStoppedError]()

        def try_it() -> None:
            try:
                work()
            except TableStoppedError as stop:
                stops.append(stop)

        def stop(told: str) -> None:
            stops.append(TableStoppedError(f"{name}: {told}", REMEDY))

        attempt(f"{self.follower}: {name}", try_it, stop, self.shared)
        return stops[0] if stops else None


def attempt(
    what: str, work: Callable[[], None], stop: Callable[[str], None], shared: tuple[type[Exception], ...] = ()
) -> None:
    """Do the work for one thing, named `what` in the log; its error is logged, and handed to `stop` as one line.

    Raises errors of ours and of `shared`, which are of the follower as a whole.
    """
    about_all: tuple[type[Exception], ...] = (CdcError, *shared)
    found = list[Exception]()
    with contain_errors(what, stop):
        try:
            work()
        except about_all as error:
            found.append(error)
    if found:
        raise found[0]


def _name_of(table: Table | TableName) -> TableName:
    return table if isinstance(table, TableName) else table.name
