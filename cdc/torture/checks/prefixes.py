"""Is what a reader saw at one cut a prefix of what was committed? Asked of append-only journals.

The lists of Elle (Kingsbury and Alvaro, VLDB 2020) that only grow, with one writer each: so every entry tells all that
was before it. A cut has to have each writer's entries without a hole; everything that was acknowledged before an entry
in it was begun; everything that was acknowledged before its reader took its token; and never less than an
earlier cut of the same reader.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Journal:
    """The transactions of one writer, whose entries are numbers without a hole, from 1.

    Of each: its last entry, when it was begun, and when it was acknowledged.
    """

    lasts: list[int] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)

    def append(self, last: int, began: float, ended: float) -> None:
        self.lasts.append(last)
        self.began.append(began)
        self.ended.append(ended)

    @property
    def last(self) -> int:
        """The last entry that was acknowledged; 0 if none was."""
        return self.lasts[-1] if self.lasts else 0

    def last_acknowledged(self, before: float) -> int:
        """The last entry that was acknowledged before a moment."""
        place = bisect_left(self.ended, before)
        return self.lasts[place - 1] if place else 0

    def find(self, last: int) -> int | None:
        """The place of the transaction that ends with an entry; None if there is none."""
        place = bisect_left(self.lasts, last)
        return place if place < len(self.lasts) and self.lasts[place] == last else None


@dataclass(frozen=True, slots=True)
class CutSighting:
    """The numbers of each writer at one cut: how many entries, and the highest. `asked`: when a token was taken."""

    where: str
    asked: float | None
    entries: Mapping[int, tuple[int, int]]


def find_hole(journals: Mapping[int, Journal], sightings: Sequence[CutSighting]) -> str | None:
    """The first sighting of a reader that is no prefix, as a sentence; `sightings` are in the reader's order."""
    before = dict[int, int]()
    for seen in sightings:
        if hole := _check(journals, seen, before):
            return hole
        before = {writer: highest for writer, (_, highest) in seen.entries.items()}
    return None


def _check(journals: Mapping[int, Journal], seen: CutSighting, before: Mapping[int, int]) -> str | None:
    latest = 0.0
    for writer, (count, highest) in seen.entries.items():
        if count != highest:
            return f"{seen.where}: writer {writer} has {count} entries, and the last is {highest}"
        journal = journals[writer]
        place = journal.find(highest)
        # what is above all was not acknowledged when its writer ended
        if place is None and highest <= journal.last:
            return f"{seen.where}: writer {writer} ends with {highest}, in the middle of a transaction"
        # the latest begin among the entries that are there: what was acknowledged before is older than one of them
        latest = max(latest, journal.began[place] if place is not None else 0.0)
    due = latest if seen.asked is None else max(latest, seen.asked)
    for writer, journal in journals.items():
        highest = seen.entries.get(writer, (0, 0))[1]
        if highest < (least := journal.last_acknowledged(due)):
            why = "a later one is there" if due == latest else "its reader had waited for it"
            return f"{seen.where}: writer {writer} ends with {highest}, though {least} was committed, and {why}"
        if highest < before.get(writer, 0):
            return f"{seen.where}: writer {writer} ends with {highest}, after {before[writer]} was seen"
    return None
