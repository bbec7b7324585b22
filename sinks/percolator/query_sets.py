"""Sets of queries, each once however many rows have it. Pure."""

from bisect import bisect_left
from collections.abc import Set

import numpy as np

from cdc.columns.arrays import Mask
from cdc.sinks.percolator.queries import Key


class QuerySets:
    """Sets by number, with how many rows have each; 0 is the empty one. A set that no row has leaves its number."""

    def __init__(self) -> None:
        # sorted tuples: a frozenset takes three times the memory
        self.sets: list[tuple[Key, ...]] = [()]
        self._uses = [0]
        self._numbers: dict[tuple[Key, ...], int] = {}
        self._free: list[int] = []

    def meeting(self, queries: Set[Key]) -> Mask:
        """Of each number, whether its set has any of these queries."""
        return np.fromiter((not queries.isdisjoint(each) for each in self.sets), np.bool_, len(self.sets))

    def change(self, number: int, query: Key, begins: bool) -> int:
        """A row has a query more, or one less: the number of its set from now on, the same one if it has that."""
        before, one = self.sets[number], (query,)
        place = bisect_left(before, query)
        if begins == (before[place : place + 1] == one):
            return number
        after = before[:place] + one + before[place:] if begins else before[:place] + before[place + 1 :]
        changed = self._use(after) if after else 0
        if before:
            self._leave(number)
        return changed

    def _use(self, queries: tuple[Key, ...]) -> int:
        number = self._numbers.get(queries)
        if number is None:
            number = self._numbers[queries] = self._add(queries)
        self._uses[number] += 1
        return number

    def _add(self, queries: tuple[Key, ...]) -> int:
        if self._free:
            number = self._free.pop()
            self.sets[number] = queries
            return number
        self.sets.append(queries)
        self._uses.append(0)
        return len(self.sets) - 1

    def _leave(self, number: int) -> None:
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._numbers[self.sets[number]]
            self.sets[number] = ()
            self._free.append(number)
