"""What `cdc follow` says of stopped tables, and which of them it asks new copies for."""

from collections.abc import Callable, Iterable

from cdc.core.text.lines import WarningLine
from cdc.run.copy.resync_queue import ResyncQueue
from cdc.sinks.lake.metadata.stopped_tables import StoppedTable


class StopReports:
    """Says each stop once, and asks for the copies of those tables that have none without it.

    One for all tries of the lake's stream: a failure may end a try after it has stopped a table, and before it has said
    so. The next one reports every stop of the lake, and those that are new are said.
    """

    def __init__(self, say: Callable[[str], None], resyncs: ResyncQueue) -> None:
        self._say = say
        self._resyncs = resyncs
        self._said: set[StoppedTable] = set()

    def note(self, stops: Iterable[StoppedTable]) -> None:
        """Ask for copies; the caller says why."""
        noted = list(stops)
        self._said.update(noted)
        self._resyncs.request(stop.name for stop in noted if stop.copy)

    def report(self, stops: Iterable[StoppedTable]) -> None:
        """Say stops that are new, and ask for copies; those that are being made are not made twice."""
        reported = list(dict.fromkeys(stops))
        for stop in reported:
            if stop not in self._said:
                self._say(WarningLine(f"{stop}; the others go on → {stop.remedy}"))
        self.note(reported)
