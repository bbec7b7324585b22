"""Requests to stop tables: any thread makes them; the stream of the lake, its only writer, carries them out."""

import threading
from collections.abc import Callable, Collection, Mapping

from cdc.core.table import TableName

StopTables = Callable[[Mapping[TableName, str], Collection[TableName]], None]
"""Stops tables; the mapping has the reason of each. Of those in the second argument, a copy is made in any case."""


class StopRequests:
    """Requests wait here until a stream is connected; from then on they are carried out at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: dict[TableName, str] = {}
        self._copied = set[TableName]()
        self._stop: StopTables | None = None

    def connect(self, stop: StopTables) -> None:
        """Stop tables by `stop` from now on; waiting requests are carried out at once."""
        with self._lock:
            self._stop, waiting, self._reasons = stop, self._reasons, {}
            copied, self._copied = self._copied, set()
            # under the lock: requests made meanwhile come after these
            stop(waiting, copied)

    def request(self, reasons: Mapping[TableName, str], copy: Collection[TableName] = ()) -> None:
        """Stop these tables, while batches may be applied. `copy`: to be copied again, whatever their policy."""
        with self._lock:
            if self._stop is None:
                self._reasons.update(reasons)
                self._copied.update(copy)
            elif reasons:
                self._stop(reasons, copy)
