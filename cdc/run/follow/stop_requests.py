"""Tables that are to be stopped: what one thread finds out, the stream's follower does, who writes the lake."""

import threading
from collections.abc import Callable, Mapping

from cdc.core.table import TableName

StopTables = Callable[[Mapping[TableName, str]], None]
"""Stops tables, each for a reason."""


class StopRequests:
    """Reasons to follow tables no further, by table; they wait until there is a stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: dict[TableName, str] = {}
        self._stop: StopTables | None = None

    def serve(self, stop: StopTables) -> None:
        """Have tables stopped by this from now on, those that wait at once."""
        with self._lock:
            self._stop, waiting, self._reasons = stop, self._reasons, {}
            stop(waiting)

    def put(self, reasons: Mapping[TableName, str]) -> None:
        """Have these tables stopped, beside whatever is being applied."""
        with self._lock:
            if self._stop is None:
                self._reasons.update(reasons)
            elif reasons:
                self._stop(reasons)
