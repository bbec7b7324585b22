"""Parses rows of `COPY ... (FORMAT binary)` into columns.

A row is a count of fields (two bytes), and for each field its length (four bytes, -1 for NULL) and its value, all big
endian (Postgres manual, COPY, "Binary Format"). The start of a row is only known after the row before it, so parsing is
a loop over rows. AwkwardForth runs it, a small language for parsing records of bytes into columns (Pivarski and others,
"AwkwardForth: accelerating Uproot with an internal DSL", CHEP 2021).
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from cdc.columns.types.copied_fields import Field, FixedColumn, VariableColumn

LONGEST_HEAD: Final = 64
"""Bytes that may be read from a value's start, whatever its length."""
_NULL = -1

Outputs = Mapping[str, npt.NDArray[Any]]
"""The outputs of a Forth program, by name."""


@dataclass(frozen=True, slots=True)
class _FixedGroup:
    """Neighbouring columns of fixed width, read as one record.

    `row`: the record's layout. `known`: its fields with a known value (the count, the lengths), to check the rows.
    """

    name: str
    row: "np.dtype[np.void]"
    known: Mapping[str, int]

    @classmethod
    def of(cls, name: str, widths: Sequence[int], count: int | None = None) -> Self:
        """Make a group of columns with these widths; with the `count` of a row's fields if it is the row's first."""
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
        """Has every row all values, each with its length?"""
        taken = found[self.name].view(self.row)
        return all((taken[name] == value).all() for name, value in self.known.items())

    def fields(self, found: Outputs) -> list[Field]:
        taken = found[self.name].view(self.row)
        return [FixedColumn(taken[name]) for name in self.row.names or () if name.startswith("value")]


@dataclass(frozen=True, slots=True)
class _SingleField:
    """A column of variable length, or of one `width`, with NULLs."""

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
        # `0 max` instead of `if`, which would take as long as all of this
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
    """Parses rows with one Forth program: the columns of `alone` one by one, all others in groups."""

    def __init__(self, widths: Sequence[int], alone: Set[int]) -> None:
        # 300 modules, 11 MiB: whoever copies nothing does without
        from awkward.forth import ForthMachine64

        self._parts = list(_parts(widths, alone))
        self._machine = ForthMachine64(_program(self._parts))

    def run(self, content: bytes) -> Outputs | None:
        """Parse whole rows; None if the bytes are no such rows, or if a group has a NULL."""
        # terminates for any bytes: each row consumes at least its count, and nothing goes back
        stopped = self._machine.run({"rows": np.frombuffer(content, np.uint8)}, raise_read_beyond=False)
        found: Outputs = self._machine.outputs
        # frees the machine's memory: a row may have a gigabyte
        self._machine.reset()
        return None if stopped or not all(part.is_sound(found) for part in self._parts) else found

    def fields(self, found: Outputs) -> list[Field]:
        return [field for part in self._parts for field in part.fields(found)]

    def nulls(self, found: Outputs) -> set[int]:
        """Find the columns that are NULL in some row."""
        alone = (part for part in self._parts if isinstance(part, _SingleField))
        return {part.column for part in alone if (part.lengths(found) == _NULL).any()}


class RowParser:
    """Parses the rows of one query, block by block.

    `widths`: the length of each column's values in bytes, 0 if it varies. Neighbouring columns of fixed width are read
    as one record, until one of them has a NULL: a NULL has no bytes, so it shifts the columns behind it.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self._widths = tuple(widths)
        self._alone = {n for n, width in enumerate(widths) if not width}
        self._usual = _ForthParser(widths, self._alone)

    def fields(self, content: bytes) -> list[Field]:
        """Parse whole rows into columns. Raises ValueError when the bytes are no such rows."""
        found = self._usual.run(content)
        if found is not None:
            return self._usual.fields(found)
        # all columns alone: one run finds every column with a NULL, however many there are
        careful = _ForthParser(self._widths, {*range(len(self._widths))})
        found = careful.run(content)
        if found is None:
            raise ValueError(f"these {len(content)} bytes are no rows of {len(self._widths)} columns")
        # a column with a NULL in one block will have others
        self._alone |= careful.nulls(found)
        self._usual = _ForthParser(self._widths, self._alone)
        return careful.fields(found)


def _parts(widths: Sequence[int], alone: Set[int]) -> Iterator[_FixedGroup | _SingleField]:
    """Split a row into its parts: groups of neighbours, the first with the count, and the columns of `alone`."""
    count: int | None = len(widths)
    # -1 stands for the row's count: it is a group of its own when the first column is alone
    for is_alone, columns in groupby(range(-1, len(widths)), lambda n: n in alone):
        if is_alone:
            yield from (_SingleField(n, widths[n]) for n in columns)
            continue
        together = [n for n in columns if n >= 0]
        yield _FixedGroup.of(f"from{together[0] if together else 0}", [widths[n] for n in together], count)
        count = None


def _program(parts: Sequence[_FixedGroup | _SingleField]) -> str:
    """Make the Forth program that reads rows part by part, and appends LONGEST_HEAD bytes to each output."""
    outputs, steps = " ".join(part.outputs for part in parts), " ".join(part.step for part in parts)
    # zeros, which `VariableColumn.head` reads behind the last value
    behind = " ".join(f"0 {part.name} <- stack" for part in parts if isinstance(part, _SingleField))
    return (
        f"input rows {outputs} rows end invert if begin {steps} rows end until then"
        + f" {LONGEST_HEAD} 0 do {behind} loop" * bool(behind)
    )
