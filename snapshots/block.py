"""Rows as `COPY ... (FORMAT binary)` sends them, many at once, found without a step a row.

A row is a count of fields (two bytes), and for each field its length (four bytes, -1 for NULL) and its value, all big
endian (Postgres manual, COPY, "Binary Format"). Where a row begins is known only once the one before it has been read;
so every row begins with fields that are NULL, a pattern to look for, and what was found is right when each row ends
where the next one begins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdc.columns.arrays import Integers, Mask

MARKS: Final = 2
"""So many fields in front of every row are NULL."""
LONGEST_HEAD: Final = 64
"""Bytes of a value that may be taken without asking where it ends."""
_COUNT_BYTES, _LENGTH_BYTES = 2, 4
_MARK_BYTES = _COUNT_BYTES + MARKS * _LENGTH_BYTES

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Even:
    """A column of a block in which every row has a value, all equally long: their bytes."""

    values: npt.NDArray[np.void]

    def head(self, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        """The values as `kind`, which is as long as they are."""
        return self.values.view(kind)

    def rows(self, first: int, behind: int) -> "Even":
        """The column in some of the rows only."""
        return Even(self.values[first:behind])

    def __len__(self) -> int:
        return len(self.values)

    @property
    def there(self) -> Mask | None:
        return None


@dataclass(frozen=True, slots=True)
class Uneven:
    """A column of a block: where in `content` each value begins, and how long it is; below 0 where there is none."""

    content: Bytes
    at: Integers
    lengths: npt.NDArray[np.int32]

    def head(self, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        """The first bytes of each value as `kind`, at most `LONGEST_HEAD`; what follows it, where it is shorter."""
        return _taken(self.content, self.at, kind)

    def rows(self, first: int, behind: int) -> "Uneven":
        """The column in some of the rows only."""
        return Uneven(self.content, self.at[first:behind], self.lengths[first:behind])

    def __len__(self) -> int:
        return len(self.at)

    @property
    def there(self) -> Mask | None:
        """Which rows have a value; None where all have."""
        there = self.lengths >= 0
        return None if there.all() else there


Field = Even | Uneven


def block(parts: Iterable[bytes], widths: Sequence[int]) -> Bytes:
    """Whole rows in one piece, with as much behind them as `fields_of` may look at."""
    return np.frombuffer(b"".join((*parts, bytes(_padding(widths)))), np.uint8)


def fields_of(content: Bytes, widths: Sequence[int]) -> list[Field]:
    """The columns of a `block` behind the marks.

    `widths` are the values' lengths in bytes, column by column, 0 where they differ. Raises ValueError when these are
    no rows of such columns.
    """
    # every row's begin is among the candidates; one that is none lies in a value, and goes once its row is known
    size = len(content) - _padding(widths)
    starts = _candidates(content, size, MARKS + len(widths))
    while True:
        fields, ends = _walked(content, size, starts, widths)
        follow = np.append(starts, size)
        if follow[0] == 0 and (ends == follow[1:]).all():
            return fields
        chained = _chained(starts, ends, follow[1:])
        if len(chained) == len(starts):
            raise ValueError(f"these {size} bytes are no rows of {len(widths)} columns")
        starts = chained


def _padding(widths: Sequence[int]) -> int:
    return LONGEST_HEAD + _MARK_BYTES + sum(_LENGTH_BYTES + width for width in widths)


def _taken(content: Bytes, at: Integers, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """What lies in the bytes at each place, aligned or not."""
    dtype = np.dtype(kind)
    # a step of one byte from each value to the next, and nothing copied until some of them are taken
    overlapping: npt.NDArray[Any] = np.ndarray((len(content) - dtype.itemsize + 1,), dtype, content, 0, (1,))
    found: npt.NDArray[Any] = overlapping[at]
    return found


def _candidates(content: Bytes, size: int, count: int) -> Integers:
    """Where rows may begin: wherever the pattern is, in a value perhaps, too."""
    pattern = np.frombuffer(count.to_bytes(_COUNT_BYTES, "big") + b"\xff" * (_MARK_BYTES - _COUNT_BYTES), np.uint8)
    # three of its bytes, looked for in whole arrays, leave few places to be looked at in full
    few = content[1 : size + 1] == pattern[1]
    for step in (_COUNT_BYTES, _MARK_BYTES - 1):
        few &= content[step : size + step] == pattern[step]
    places = np.flatnonzero(few)
    found: Mask = _taken(content, places, f"V{_MARK_BYTES}") == pattern.view(f"V{_MARK_BYTES}")
    return places[found]


def _walked(content: Bytes, size: int, starts: Integers, widths: Sequence[int]) -> tuple[list[Field], Integers]:
    """The fields of rows that begin at `starts`, and where these rows end; nonsense for a start that is none."""
    fields: list[Field] = list(_even(content, starts, widths))
    place = starts + _MARK_BYTES + sum(_LENGTH_BYTES + width for width in widths[: len(fields)])
    for _ in widths[len(fields) :]:
        # a begin that is none leads anywhere: it is kept inside the padding, and found out by where its row ends
        lengths = _taken(content, np.minimum(place, size), ">i4").astype(np.int32)
        at = place + _LENGTH_BYTES
        fields.append(Uneven(content, np.minimum(at, size), lengths))
        place = at + np.maximum(lengths, 0)
    return fields, place


def _even(content: Bytes, starts: Integers, widths: Sequence[int]) -> list[Even]:
    """The first fields, taken in one go, as far as every row has a value in them that is as long as it should be."""
    first = list(widths[: widths.index(0)] if 0 in widths else widths)
    steps = np.cumsum([_MARK_BYTES, *(_LENGTH_BYTES + width for width in first)]).tolist()
    rows = _taken(content, starts, f"V{steps[-1]}")
    found = list[Even]()
    for step, width in zip(steps, first, strict=False):
        field = rows.view(_within(step, width, steps[-1]))
        # a NULL has no bytes: behind the first one the rows' fields no longer lie at the same places
        if not (field["length"] == width).all():
            break
        found.append(Even(field["value"]))
    return found


def _within(step: int, width: int, row: int) -> "np.dtype[np.void]":
    """A field of so many bytes in rows that are equally long."""
    names, offsets = ["length", "value"], [step, step + _LENGTH_BYTES]
    return np.dtype({"names": names, "formats": [">i4", f"V{width}"], "offsets": offsets, "itemsize": row})


def _chained(starts: Integers, ends: Integers, follow: Integers) -> Integers:
    """The candidates without those that lie within a row."""
    kept, until = np.ones(len(starts), np.bool_), 0
    for row in np.flatnonzero(ends != follow).tolist():
        # one that lies within a row has been struck out by that
        if starts[row] >= until:
            until = int(ends[row])
            kept[row + 1 : np.searchsorted(starts, until)] = False
    return starts[kept]
