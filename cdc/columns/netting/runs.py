"""Runs of whole transactions, which are applied together, cut from the order of commits."""

from collections.abc import Iterator, Sequence

import numpy as np

from cdc.columns.netting.ends import Ends
from cdc.core.position import Position


def drop_applied(ends: Ends, position: Position | None) -> Ends:
    """Drop ENDs up to `position`, and redeliveries; the rest is in commit order.

    A connector that restarts at an older offset (kill -9 without exactly-once) sends transactions again, at new
    offsets. The LSN of such an END is not above all earlier ones.
    """
    offset, lsn = (position.end_offset, position.lsn) if position else (-1, -1)
    behind = ends.offset > offset
    # the maximum excludes the END itself: of two deliveries the first stays
    highest_before = np.maximum.accumulate(np.concatenate([[lsn], np.where(behind, ends.lsn, -1)]))[:-1]
    return ends.where(behind & (ends.lsn > highest_before))


def cut_runs(
    ends: Ends, budget: int, until: int = -1, alone: str = "", scarce: Sequence[str] = (), few: int = 0
) -> Iterator[Ends]:
    """Cut ENDs into runs, each as `cut_run` cuts it from what is left; `until` is the first one's alone."""
    while len(ends):
        yield (run := cut_run(ends, budget, until, alone, scarce, few))
        ends, until = ends.slice(len(run), len(ends)), -1


def cut_run(
    ends: Ends, budget: int, until: int = -1, alone: str = "", scarce: Sequence[str] = (), few: int = 0
) -> Ends:
    """Cut a run of at most `budget` changes from the front of ENDs: at least one transaction; `ends` has at least one.

    It has at most `few` changes of the `scarce` tables together. It reaches the END at offset `until`, whatever its
    size: after a crash between two tables, the next batch must contain all that the first table has applied. A
    transaction with changes of the table `alone` is a run of its own.
    """
    # "right": empty transactions at the border belong to this run
    stop = int(np.searchsorted(np.cumsum(ends.changes), budget, "right"))
    if scarce:
        stop = min(stop, int(np.searchsorted(np.cumsum(ends.changes_of(scarce)), few, "right")))
    stop = max(stop, 1)
    if until >= ends.offset[0]:
        stop = max(stop, int(np.searchsorted(ends.offset, until)) + 1)
    single = ends.touching(alone)
    if len(single):
        stop = min(stop, max(int(single[0]), 1))
    return ends.slice(0, min(stop, len(ends)))
