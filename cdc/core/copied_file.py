"""What a copy leaves behind for a follower to take in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A Parquet file in the table's folder: its name there, its size in bytes, its rows, and what is known of them.

    `statistics`: JSON as the follower keeps it beside the file; empty where nothing is known.
    """

    path: str
    bytes: int
    rows: int
    statistics: str = ""
