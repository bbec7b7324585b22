"""Counts what happens in this process, wherever it is noticed, for whoever shows the state: no part is asked for it."""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final


class EventCounters:
    """Totals by name and label since the process began; any thread may add and read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = dict[str, Counter[str]]()

    def add(self, name: str, label: str = "", by: float = 1) -> None:
        with self._lock:
            # a Counter adds seconds as well
            self._totals.setdefault(name, Counter())[label] += by  # type: ignore[assignment]

    def read(self) -> Mapping[str, Mapping[str, float]]:
        """By name, the total of each label."""
        with self._lock:
            return {name: dict(totals) for name, totals in self._totals.items()}


COUNTERS: Final = EventCounters()
"""Those of this process."""
COMMIT_CONFLICTS: Final = "commit_conflicts"
"""Of the lake: another writer had taken the version of a table."""
SCHEMA_CHANGES: Final = "schema_changes"
"""By kind: widened, or altered."""
UPKEEP_SECONDS: Final = "upkeep_seconds"
"""What compaction and vacuum took."""
SEARCH: Final = "search"
"""By kind: operations that a cluster rejected for now, that met a newer version, or that it refused for good."""
REJECTED, STALE, FAILED = "rejected", "stale", "failed"
CONNECTOR_STARTS: Final = "connector_starts"
"""Of the connector's task, by `cdc follow`, after it had failed."""
GROUPS: Final = "view_groups"
"""By view: the rows that were computed anew."""
