"""Rows as `COPY ... (FORMAT binary)` sends them, taken apart into columns.

A row is a count of fields (two bytes), and for each field its length (four bytes, -1 for NULL) and its value, all big
endian (Postgres manual, COPY, "Binary Format"). Where a row begins is known only once the one before it has been read:
a loop over rows, which is AwkwardForth's to run, a small language for taking records of bytes apart into columns
(Pivarski and others, "AwkwardForth: accelerating Uproot with an internal DSL", CHEP 2021).
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
from awkward.forth import ForthMachine64

from cdc.columns.arrays import Integers, Mask

LONGEST_HEAD: Final = 64
"""Bytes of a value that may be taken without asking where it ends."""
_NULL = -1

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class FixedColumn:
    """A column of a block in which every row has a value, all equally long: their bytes."""

    values: npt.NDArray[np.void]

    def head(self, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        """The values as `kind`, which is as long as they are."""
        return self.values.view(kind)

    def rows(self, first: int, behind: int) -> "FixedColumn":
        """The column in some of the rows only."""
        return FixedColumn(self.values[first:behind])

    def __len__(self) -> int:
        return len(self.values)

    @property
    def there(self) -> Mask | None:
        return None


@dataclass(frozen=True, slots=True)
class VariableColumn:
    """A column of a block: its values one behind the other in `content`, which goes on behind the last one, from where
    to where each is (one `bounds` more than rows), and how long; below 0 where there is none."""

    content: Bytes
    bounds: Integers
    lengths: npt.NDArray[np.int32]

    def head(self, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        """The first bytes of each value as `kind`, at most `LONGEST_HEAD`; what follows it, where it is shorter."""
        dtype = np.dtype(kind)
        # a step of one byte from each value to the next, and nothing copied until some of them are taken
        overlapping: npt.NDArray[Any] = np.ndarray(
            (len(self.content) - dtype.itemsize + 1,), dtype, self.content, 0, (1,)
        )
        found: npt.NDArray[Any] = overlapping[self.bounds[:-1]]
        return found

    def rows(self, first: int, behind: int) -> "VariableColumn":
        """The column in some of the rows only."""
        return VariableColumn(self.content, self.bounds[first : behind + 1], self.lengths[first:behind])

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def there(self) -> Mask | None:
        """Which rows have a value; None where all have."""
        there = self.lengths >= 0
        return None if there.all() else there


Field = FixedColumn | VariableColumn


Outputs = Mapping[str, npt.NDArray[Any]]
"""What a program has written, by name."""


@dataclass(frozen=True, slots=True)
class _FixedGroup:
    """Neighbours of one length each, which are taken in one go: how a row has them, and what of it is known before."""

    name: str
    row: "np.dtype[np.void]"
    known: Mapping[str, int]

    @classmethod
    def of(cls, name: str, widths: Sequence[int], count: int | None = None) -> Self:
        """Values of these widths, behind the `count` of a row's fields where they are its first."""
        layout, known = list[tuple[str, str]](), dict[str, int]()
        if count is not None:
            layout, known = [("count", ">i2")], {"count": count}
        for n, width in enumerate(widths):
            layout += [(f"length{n}", ">i4"), (f"value{n}", f"V{width}")]
            known[f"length{n}"] = width
        return cls(name, np.dtype(layout), known)

    @property
    def outputs(self) -> str:
        return f"output {self.name} uint8"

    @property
    def step(self) -> str:
        return f"{self.row.itemsize} rows #B-> {self.name}"

    def is_sound(self, found: Outputs) -> bool:
        """Has every row all values, each as long as it should be?"""
        taken = found[self.name].view(self.row)
        return all((taken[name] == value).all() for name, value in self.known.items())

    def fields(self, found: Outputs) -> list[Field]:
        taken = found[self.name].view(self.row)
        return [FixedColumn(taken[name]) for name in self.row.names or () if name.startswith("value")]


@dataclass(frozen=True, slots=True)
class _SingleField:
    """A column of values of any length, or of one `width`, any of which may be NULL."""

    column: int
    width: int

    @property
    def name(self) -> str:
        return f"column{self.column}"

    @property
    def outputs(self) -> str:
        return f"output {self.name} uint8 output {self.name}-length int32"

    @property
    def step(self) -> str:
        # no `if`, which takes as long as all of this
        return f"rows !i-> stack dup {self.name}-length <- stack 0 max rows #B-> {self.name}"

    def is_sound(self, found: Outputs) -> bool:
        lengths = self.lengths(found)
        fit = lengths == self.width if self.width else lengths >= 0
        return bool((fit | (lengths == _NULL)).all())

    def fields(self, found: Outputs) -> list[Field]:
        lengths = self.lengths(found)
        bounds = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(np.maximum(lengths, 0), out=bounds[1:])
        return [VariableColumn(found[self.name], bounds, lengths)]

    def lengths(self, found: Outputs) -> npt.NDArray[np.int32]:
        return found[f"{self.name}-length"]


class _ForthParser:
    """Takes rows apart, with these columns alone and all others together with their neighbours."""

    def __init__(self, widths: Sequence[int], alone: Set[int]) -> None:
        self._parts = list(_parts(widths, alone))
        self._machine = ForthMachine64(_program(self._parts))

    def run(self, content: bytes) -> Outputs | None:
        """What the parts find in whole rows; None where these are none, or a value of columns together is NULL."""
        # it ends, whatever these bytes are: each row takes its count at least, and nothing goes back
        stopped = self._machine.run({"rows": np.frombuffer(content, np.uint8)}, raise_read_beyond=False)
        found: Outputs = self._machine.outputs
        # which hold what they have: a row may be a gigabyte, and nobody knows when the next one comes
        self._machine.reset()
        return None if stopped or not all(part.is_sound(found) for part in self._parts) else found

    def fields(self, found: Outputs) -> list[Field]:
        return [field for part in self._parts for field in part.fields(found)]

    def nulls(self, found: Outputs) -> set[int]:
        """The columns that are NULL in some row."""
        alone = (part for part in self._parts if isinstance(part, _SingleField))
        return {part.column for part in alone if (part.lengths(found) == _NULL).any()}


class RowParser:
    """Takes the rows of one query apart, block by block.

    `widths` are the values' lengths in bytes, column by column, 0 where they differ. Neighbours of one length each are
    taken in one go, as long as none of their values was NULL: a NULL has no bytes, and what follows lies elsewhere.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self._widths = tuple(widths)
        self._alone = {n for n, width in enumerate(widths) if not width}
        self._usual = _ForthParser(widths, self._alone)

    def fields(self, content: bytes) -> list[Field]:
        """The columns of whole rows. Raises ValueError when these are no rows of such columns."""
        found = self._usual.run(content)
        if found is not None:
            return self._usual.fields(found)
        careful = _ForthParser(self._widths, {*range(len(self._widths))})
        found = careful.run(content)
        if found is None:
            raise ValueError(f"these {len(content)} bytes are no rows of {len(self._widths)} columns")
        # where one is NULL in a block, it will be in others
        self._alone |= careful.nulls(found)
        self._usual = _ForthParser(self._widths, self._alone)
        return careful.fields(found)


def _parts(widths: Sequence[int], alone: Set[int]) -> Iterator[_FixedGroup | _SingleField]:
    """How a row is read: the count of its fields, and neighbours in one go, but for the columns that are `alone`."""
    count: int | None = len(widths)
    for is_alone, columns in groupby(range(-1, len(widths)), lambda n: n in alone):
        if is_alone:
            yield from (_SingleField(n, widths[n]) for n in columns)
            continue
        together = [n for n in columns if n >= 0]
        yield _FixedGroup.of(f"from{together[0] if together else 0}", [widths[n] for n in together], count)
        count = None


def _program(parts: Sequence[_FixedGroup | _SingleField]) -> str:
    """Reads rows part by part; behind all values are as many bytes as somebody may look at."""
    outputs, steps = " ".join(part.outputs for part in parts), " ".join(part.step for part in parts)
    behind = " ".join(f"0 {part.name} <- stack" for part in parts if isinstance(part, _SingleField))
    return (
        f"input rows {outputs} rows end invert if begin {steps} rows end until then"
        + f" {LONGEST_HEAD} 0 do {behind} loop" * bool(behind)
    )
