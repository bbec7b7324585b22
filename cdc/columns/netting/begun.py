"""Finds transactions whose END never comes, in the order of commits.

An END comes before the next transaction's BEGIN, unless a task of Kafka Connect is killed between them. The next task
sends the transaction again, or goes on within it: its END is still the first one above all earlier LSNs. If another
commit comes first, nobody sends it any more.
"""

from collections.abc import Sequence

import numpy as np

from cdc.columns.arrays import Mask
from cdc.columns.netting.ends import Ends, parse_transaction_id
from cdc.core.position import Lsn


class BegunTransactions:
    """The transactions that have a BEGIN and no END yet.

    Reading begins behind the END at `lsn`, or anywhere before the first one above it if it is not `behind_end`: then
    a transaction that began earlier than that END may lie below `lsn`, and is nobody's loss.
    """

    def __init__(self, lsn: Lsn, *, behind_end: bool = True) -> None:
        self._highest = int(lsn)
        self._counts = behind_end
        self._last: int | None = None
        """The one of the last BEGIN, if no END came after it."""
        self._passed = set[int]()
        """Those before it that were not ended when another one began."""

    def find_lost(self, offsets: Sequence[int], values: Sequence[bytes | None], ends: Ends) -> int | None:
        """Take the topic's next messages, and their ENDs; returns the id of a transaction whose END never comes.

        Returns None where there is none. Every message that is no END is a BEGIN (`read_ends`).
        """
        begins = ~np.isin(np.array(offsets, np.int64), ends.offset)
        if self._passed or not self._counts or _has_neighbours(begins, self._last is not None):
            return self._go_through(values, begins, ends)
        # all but the last have ended: one of a million BEGINs is parsed
        if len(begins):
            self._last = parse_transaction_id(values[-1] or b"") if begins[-1] else None
        self._highest = max(self._highest, int(ends.lsn.max(initial=0)))
        return None

    def _go_through(self, values: Sequence[bytes | None], begins: Mask, ends: Ends) -> int | None:
        ended = zip(ends.tx_id.tolist(), ends.lsn.tolist(), strict=True)
        for value, is_begin in zip(values, begins.tolist(), strict=True):
            tx_id, lsn = (parse_transaction_id(value or b""), 0) if is_begin else next(ended)
            if self._counts and self._last not in (None, tx_id):
                self._passed.add(self._last)
            self._last = tx_id if is_begin else None
            if is_begin:
                continue
            self._passed.discard(tx_id)
            # one that came again says nothing of those behind it
            if lsn > self._highest:
                if self._passed:
                    return min(self._passed)
                self._highest, self._counts = lsn, True
        return None


def _has_neighbours(begins: Mask, begins_before: bool) -> bool:
    """Does a BEGIN follow another one, before these messages or among them?"""
    return bool(len(begins)) and bool((begins & np.append(begins_before, begins[:-1])).any())
