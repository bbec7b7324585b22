"""Which table is compared next, and when."""

from collections.abc import Collection, Mapping
from typing import Final

from cdc.run.status.things import Verification

AGAIN_SECONDS: Final = 300.0
"""When a table is tried again that could not be compared: locked, say, or a follower was behind."""


def choose_next(tried: Mapping[str, float], tables: Collection[str], now: float, every: float) -> tuple[str, float]:
    """The table that has waited longest, one that never was first; and in how many seconds its turn begins.

    `tried`: when each was tried last, by a clock that may have been set since: what is in the future is over now.
    There is at least one table.
    """
    since = {table: tried.get(table, float("-inf")) for table in tables}
    table = min(sorted(since), key=lambda each: since[each] if since[each] <= now else float("-inf"))
    if since[table] > now:
        return table, 0.0
    return table, max(since[table] + every - now, 0.0)


def list_tried(
    known: Mapping[str, Verification], held: Mapping[str, Collection[str]], every: float
) -> dict[str, float]:
    """When each table that the followers have `held` was tried last, in seconds since 1970, in the one of them that has
    waited longest. One that was never tried in one of them is absent; one that could not be compared then is to be
    tried again after AGAIN_SECONDS, if that is before its period has passed."""
    found = dict[str, float]()
    missing = set[str]()
    for follower, tables in held.items():
        by_table = known[follower].by_table if follower in known else {}
        missing |= {table for table in tables if table not in by_table}
        for table in by_table.keys() & {*tables}:
            early = max(every - AGAIN_SECONDS, 0.0) if by_table[table].why else 0.0
            at = by_table[table].tried.timestamp() - early
            found[table] = min(found.get(table, at), at)
    return {table: at for table, at in found.items() if table not in missing}
