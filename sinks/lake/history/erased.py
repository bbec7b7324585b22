"""Tombstones of a history's chain: they say that rows of a batch were erased, and not which.

The chain goes on over the digest that the batch had with them, so that its end, which somebody may keep elsewhere,
stays what it was. Who erases signs each tombstone: whoever could change rows could write one, too.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Final, Self

NOTHING: Final = ""
"""The digest of no rows."""


@dataclass(frozen=True, slots=True)
class ErasedBatch:
    """Rows of one batch were erased. `before`, `after`: the digests of its rows with and without them; `chain`: as the
    batch notes it; `rows`: how many; `at_ms`: when, since 1970. `public`, `signature`: who says so, in hex."""

    batch: int
    before: str
    after: str
    chain: str
    rows: int
    at_ms: int
    public: str = ""
    signature: str = ""

    def content(self, history: str) -> bytes:
        """What is signed: all of it, for the history of this name."""
        own = replace(self, public="", signature="")
        return json.dumps([history, *astuple(own)[:-2]], separators=(",", ":")).encode()

    def as_json(self) -> list[int | str]:
        return [*astuple(self)]

    @classmethod
    def from_json(cls, value: Sequence[int | str]) -> Self:
        return cls(*value)  # type: ignore[arg-type]


def restore_digests(
    batches: Iterable[tuple[int, str, str]], erased: Iterable[ErasedBatch]
) -> Iterator[tuple[int, str, str]]:
    """The batches (number, chain, digest) with the digests that they had before erasures, those without a row among
    them. One whose rows are not those that an erasure left keeps its digest, which then breaks the chain."""
    known = {each.batch: each for each in erased}
    found = [*batches]
    gone = known.keys() - {number for number, _, _ in found}
    empty = [(n, known[n].chain, known[n].before) for n in gone if known[n].after == NOTHING]
    for number, chain, digest in sorted([*found, *empty]):
        mark = known.get(number)
        yield number, chain, mark.before if mark and digest == mark.after else digest
