"""Compares the prints of two sides name by name, without names that have changed meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cdc.columns.arrays import Integers, Mask
from cdc.columns.rows.compare import DIFFERING, EXTRA, MISSING, TWICE
from cdc.columns.rows.row_prints import Names, Prints


@dataclass(frozen=True, slots=True)
class NameDifferences:
    """What a comparison has found: rows of each side, and the names that differ by kind; `moved` were left out."""

    source_rows: int = 0
    follower_rows: int = 0
    kinds: Mapping[str, Names] = field(default_factory=dict)
    moved: Names = field(default_factory=lambda: np.empty((0, 2), np.uint64))

    def __add__(self, other: "NameDifferences") -> "NameDifferences":
        kinds = {*self.kinds, *other.kinds}
        return NameDifferences(
            self.source_rows + other.source_rows,
            self.follower_rows + other.follower_rows,
            {kind: concat_names([each.kinds[kind] for each in (self, other) if kind in each.kinds]) for kind in kinds},
            concat_names([self.moved, other.moved]),
        )

    @property
    def different(self) -> Names:
        return concat_names([*self.kinds.values()])

    def count(self, kind: str) -> int:
        return len(self.kinds.get(kind, ()))


def concat_names(names: Sequence[Names]) -> Names:
    return np.concatenate(names) if names else np.empty((0, 2), np.uint64)


def compare_prints(source: Prints, follower: Prints, moved: Names, *, keyed: bool = True) -> NameDifferences:
    """Compare rows by name. The order of rows is of no matter, and a name may be there more than once on either side.

    `keyed`: false for a table without a key, of which rows are named by the whole of them, and counted.
    """
    ours, theirs = source[:, :2], follower[:, :2]
    names, (own, other, left) = _number_names([ours, theirs, np.unique(moved, axis=0)])
    of_source, of_follower = (np.bincount(each, minlength=len(names)) for each in (own, other))
    is_moved = np.zeros(len(names), np.bool_)
    is_moved[left] = True
    if keyed:
        differs = _find_other_rows(source, follower, own, other, len(names))
        kinds = {
            MISSING: of_follower == 0,
            EXTRA: of_source == 0,
            TWICE: (of_follower > 1) & (of_source > 0),
            DIFFERING: (of_follower == 1) & (of_source > 0) & differs,
        }
    else:
        kinds = {MISSING: of_source > of_follower, EXTRA: of_source < of_follower}
    found = {kind: names[differs] for kind, mask in kinds.items() if (differs := mask & ~is_moved).any()}
    # as they were read: rows of moved names are among them
    return NameDifferences(
        len(source), len(follower), {k: each for k, each in found.items() if len(each)}, names[is_moved]
    )


def _find_other_rows(source: Prints, follower: Prints, own: Integers, other: Integers, names: int) -> Mask:
    places = np.full((2, names), -1)
    places[0, own], places[1, other] = np.arange(len(source)), np.arange(len(follower))
    differs, both = np.zeros(names, np.bool_), (places >= 0).all(axis=0)
    rows = source[places[0, both], 2:], follower[places[1, both], 2:]
    differs[both] = (rows[0] != rows[1]).any(axis=1)
    return differs


def _number_names(sides: Sequence[Names]) -> tuple[Names, Sequence[Integers]]:
    """All different names, and for each side the number that each of its names has among them."""
    every = np.concatenate(sides)
    order = np.lexsort((every[:, 1], every[:, 0]))
    ordered = every[order]
    is_first = np.ones(len(every), np.bool_)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(every), np.int64)
    numbers[order] = np.cumsum(is_first) - 1
    return ordered[is_first], np.split(numbers, np.cumsum([len(side) for side in sides])[:-1])
