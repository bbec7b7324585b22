"""How far to read in a topic to find so many changes: offsets have gaps, and nobody says which partition has what."""

from collections.abc import Mapping

SLACK = 64
"""Room for transaction markers and tombstones in small reads."""

Bounds = Mapping[int, int]


def first_guess(start: Bounds, end: Bounds, changes: int) -> dict[int, int]:
    """Where to stop in every partition, if `changes` were spread evenly and some were deletes."""
    share = changes * 3 // (2 * max(len(start), 1)) + SLACK
    return {partition: min(offset + share, end[partition]) for partition, offset in start.items()}


def further(start: Bounds, until: Bounds, end: Bounds) -> dict[int, int]:
    """Four times as far as before, but not beyond the end."""
    return {p: min(offset + 4 * max(until[p] - offset, SLACK), end[p]) for p, offset in start.items()}


def at_end(until: Bounds, end: Bounds) -> bool:
    return all(offset >= end[partition] for partition, offset in until.items())


def clipped(start: Bounds, beginning: Bounds) -> dict[int, int]:
    """Where reading can start at all: what retention took from before is missed by its count, not by its offset."""
    return {partition: max(start.get(partition, 0), first) for partition, first in beginning.items()}
