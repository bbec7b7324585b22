"""One turn of one table: a look at all rows, then looks at what differed or moved, until a verdict is known."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cdc.columns.rows.compare import DIFFERING, EXTRA, MISSING, TWICE, Comparison, KeyDifference
from cdc.columns.rows.row_prints import Names
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.position import Lsn
from cdc.run.verify.report import Verdict
from cdc.run.verify.rolling.comparison import NameDifferences, concat_names
from cdc.run.verify.rolling.look import MOST_TEXTS, Look

LookAt = Callable[[Names | None, Collection[str] | None], tuple[Lsn, Mapping[str, Look]]]
"""Looks at all rows in all followers, or at those of these names in these followers."""
MOST_LOOKS: Final = 5
"""Looks of a turn. What moves in each of them changes all the time."""


@dataclass(slots=True)
class _Follower:
    """What is known of one follower: `left` are names without a verdict, of which `suspects` may differ.

    `left_keys`: the keys of those that are left; None where not all are known.
    """

    first: NameDifferences
    left: Names
    suspects: int
    faults: dict[str, list[Names]] = field(default_factory=dict)
    keys: list[KeyDifference] = field(default_factory=list)
    left_keys: list[dict[str, str | None]] | None = None
    error: CdcError | None = None

    @classmethod
    def of(cls, look: Look) -> "_Follower":
        different = look.found.different
        left = concat_names([different, look.found.moved])
        return cls(look.found, left, len(different), error=look.error)

    def take(self, look: Look, most: int, *, has_texts: bool) -> None:
        """Take a later look at what is left: what differs is a fault; what moved again, or cannot be told, is left.

        `has_texts`: the look has kept the texts of all its names.
        """
        self.error = self.error or look.error
        if self.error:
            self.left, self.suspects = self.left[:0], 0
            return
        # others are left of other followers: here they have a verdict
        own = look.among(self.left)
        for kind, names in own.found.kinds.items():
            self.faults.setdefault(kind, []).append(names)
        self.keys += own.describe(most - len(self.keys))
        self.left, self.suspects = concat_names([own.found.moved, own.unsure]), len(own.unsure)
        self.left_keys = own.name_keys(self.left) if has_texts else None

    def verdict(self) -> Verdict:
        if self.error:
            return Verdict(None, stopped=PreconditionError(self.error.what, self.error.remedy))
        counts = {kind: len(np.unique(concat_names(names), axis=0)) for kind, names in self.faults.items()}
        kinds = {kind: counts.get(kind, 0) for kind in (MISSING, EXTRA, DIFFERING, TWICE)}
        if self.suspects and not any(counts.values()):
            return Verdict(None, moved=len(self.left))
        rows = self.first.source_rows, self.first.follower_rows
        left = None if self.left_keys is None else tuple(self.left_keys)
        return Verdict(Comparison(*rows, **kinds, keys=tuple(self.keys)), len(self.left), left=left)


def take_turn(
    look: LookAt, most_keys: int, *, settles: bool, looks: int = MOST_LOOKS
) -> tuple[Lsn, Mapping[str, Verdict]]:
    """Compare a table in its followers; names at most `most_keys` keys of each. Errors of `look` pass through.

    `settles`: looks again at what has moved, until it is compared, too; else only where something differs. At most so
    many `looks`.
    """
    lsn, first = look(None, None)
    followers = {name: _Follower.of(each) for name, each in first.items()}
    for _ in range(1, looks):
        # a follower is read as a whole, however few names are left: only those that need it
        unsettled = {name: each for name, each in followers.items() if (len(each.left) if settles else each.suspects)}
        if not unsettled:
            break
        names = np.unique(concat_names([each.left for each in unsettled.values()]), axis=0)
        lsn, again = look(names, [*unsettled])
        for name, each in again.items():
            followers[name].take(each, most_keys, has_texts=len(names) <= MOST_TEXTS)
    return lsn, {name: each.verdict() for name, each in followers.items()}
