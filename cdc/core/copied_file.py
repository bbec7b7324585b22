"""A file that a copy has written, for a follower to load."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A Parquet file in the table's folder: its name there, its size in bytes, its rows, and its statistics.

    `statistics`: JSON in the follower's own form (Delta's for the lake); empty if there are none.
    """

    path: str
    bytes: int
    rows: int
    statistics: str = ""
