"""What a copy leaves behind for a follower to take in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A Parquet file in the table's folder: its name there, its size in bytes, and its rows."""

    path: str
    bytes: int
    rows: int
