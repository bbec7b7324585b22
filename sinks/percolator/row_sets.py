"""Which set of queries each row has, by the set's number. Pure."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from cdc.columns.arrays import Mask
from cdc.sinks.percolator.queries import Key
from cdc.sinks.percolator.sorted_rows import GONE, NOWHERE, Hash, SortedRows

UNSORTED: Final = 16_384
"""The new rows that are held in a dict, some 150 bytes each: as many, or a sixteenth of the sorted ones."""


class RowSets:
    """A number for each row, 0 for one that is not there.

    New rows are in a dict, and from time to time they are added to the sorted ones, which takes some milliseconds.
    """

    def __init__(self, unsorted: int = UNSORTED, hash_of: Hash = hash) -> None:
        self._least = unsorted
        self._most = unsorted
        self._sorted = SortedRows(hash_of)
        self._unsorted: dict[Key, int] = {}
        self._gone = 0

    def number_of(self, row: Key) -> int:
        if number := self._unsorted.get(row):
            return number
        place = self._sorted.find(row)
        return GONE if place == NOWHERE else self._sorted.numbers[place]

    def update(self, row: Key, change: Callable[[int], int]) -> None:
        """Replace a row's number by what `change` makes of it."""
        number = self._unsorted.get(row, GONE)
        place = NOWHERE if number else self._sorted.find(row)
        if place != NOWHERE:
            self._replace(place, change)
        elif replaced := change(number):
            self._unsorted[row] = replaced
            if len(self._unsorted) > self._most:
                self._sort()
        elif number:
            del self._unsorted[row]

    def select(self, numbers: Mask) -> Iterator[tuple[Key, int]]:
        """The rows that have one of these numbers; `numbers`: of each number, whether it is one of them."""
        unsorted = ((row, number) for row, number in self._unsorted.items() if numbers[number])
        return chain(self._sorted.select(numbers), unsorted)

    def _replace(self, place: int, change: Callable[[int], int]) -> None:
        number = self._sorted.numbers[place]
        replaced = self._sorted.numbers[place] = change(number)
        self._gone += (replaced == GONE) - (number == GONE)
        if self._gone > self._most:
            self._sorted.drop_gone()
            self._gone = 0

    def _sort(self) -> None:
        self._sorted.add(self._unsorted)
        self._unsorted = {}
        self._most = max(self._least, len(self._sorted) // 16)
