"""Tables that are to be stopped: what one thread finds out, another one does who writes the lake."""

import threading
from collections.abc import Mapping

from cdc.core.table import TableName


class Stops:
    """Reasons to follow tables no further, by table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: dict[TableName, str] = {}

    def put(self, reasons: Mapping[TableName, str]) -> None:
        """Have these tables stopped."""
        with self._lock:
            self._reasons.update(reasons)

    def take(self) -> dict[TableName, str]:
        """What is to be done; it is asked for once."""
        with self._lock:
            taken, self._reasons = self._reasons, {}
        return taken
