"""Is a history of concurrent reads and writes of registers linearizable?

Registers are independent of each other (Herlihy and Wing, *Linearizability*, 1990: it is a local property), so each
is checked alone. As no value is written twice to a register, it is known which write a read has seen, and the check
takes no search as that of Wing and Gong does: Gibbons and Korach, *Testing Shared Memories* (SIAM Journal on
Computing 26, 1997, theorem 4.2). A value's operations span a zone, from the first moment at which one of them has
ended to the last at which one has begun. Is that order the other way round, the value may have been there for a
single moment between both: a backward zone. The history is linearizable exactly if no read ends before its write
begins, no two forward zones overlap, and no backward zone lies within a forward one.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

FOREVER: Final = math.inf
"""The end of a write of which nobody knows whether it was done."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A read or a write of `value` in `register`, asked for at `began` and answered at `ended`, by one clock.

    `client`: who asked, for whoever reads of a violation.
    """

    register: Hashable
    value: Hashable
    is_write: bool
    began: float
    ended: float
    client: str = ""

    def __str__(self) -> str:
        done = "wrote" if self.is_write else "read"
        return f"{self.client} {done} {self.value} in {self.register} ({self.began:.3f} s to {self.ended:.3f} s)"


@dataclass(frozen=True, slots=True)
class _Zone:
    """The operations of one value between `start` and `end`."""

    start: float
    end: float
    is_forward: bool
    operations: tuple[Operation, ...]

    @classmethod
    def of(cls, operations: Sequence[Operation]) -> "_Zone":
        ended, began = min(each.ended for each in operations), max(each.began for each in operations)
        # those who ended at the very moment at which another began were not before it for certain
        return cls(min(ended, began), max(ended, began), ended < began, tuple(operations))

    def __str__(self) -> str:
        return "; ".join(map(str, sorted(self.operations, key=lambda each: each.began)))


def find_violation(history: Iterable[Operation], initial: Hashable = None) -> str | None:
    """The first violation as a sentence, or None if the history is linearizable. O(n log n).

    `initial`: what every register has at first. Each value may be written once to a register, and the initial one
    never; else ValueError. A write that may have been done or not ends at FOREVER.
    """
    registers = defaultdict[Hashable, list[Operation]](list)
    for operation in history:
        registers[operation.register].append(operation)
    return next(filter(None, (_check_register(each, initial) for each in registers.values())), None)


def _check_register(operations: Sequence[Operation], initial: Hashable) -> str | None:
    by_value = defaultdict[Hashable, list[Operation]](list)
    for operation in operations:
        by_value[operation.value].append(operation)
    register = operations[0].register
    first = Operation(register, initial, True, -math.inf, -math.inf, "the beginning")
    by_value[initial].append(first)
    zones = list[_Zone]()
    for of_value in by_value.values():
        if broken := _check_reads(of_value):
            return broken
        zones.append(_Zone.of(of_value))
    return next(_find_conflicts(zones), None)


def _check_reads(operations: Sequence[Operation]) -> str | None:
    """Each read of a value has seen its one write, which had begun."""
    writes = [each for each in operations if each.is_write]
    if len(writes) > 1:
        raise ValueError(f"a value was written twice: {writes[0]}; {writes[1]}")
    if not writes:
        return f"{operations[0]}, which nobody wrote"
    early = next((each for each in operations if each.ended < writes[0].began), None)
    return f"{early}, before {writes[0]}" if early else None


def _find_conflicts(zones: Iterable[_Zone]) -> Iterator[str]:
    forward = sorted((each for each in zones if each.is_forward), key=lambda each: each.start)
    for one, other in pairwise(forward):
        # the zone with the last end so far is the one before: else an earlier pair had overlapped
        if other.start < one.end:
            yield f"a value came back: {one}; {other}"
    for zone in (each for each in zones if not each.is_forward):
        # zones that do not overlap: only the last that begins before it can have it inside
        around = next((each for each in reversed(forward) if each.start < zone.start), None)
        if around and zone.end < around.end:
            yield f"a value was there while another was: {zone}; {around}"
