"""Where a follower stands in the log, and what ties a copy to the log.

Offsets order nothing across partitions and LSNs order nothing inside a transaction, so the clock is the commit:
the offset of a transaction's END in the one partition of the transaction topic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType, Self

Lsn = NewType("Lsn", int)
"""A byte position in the write-ahead log (Postgres manual, "pg_lsn Type")."""

Offsets = Mapping[str, Mapping[int, int]]
"""Topic, partition, and the next offset to read there."""


def parse_lsn(text: str) -> Lsn:
    """Read Postgres's `16/B374D848` form; raises ValueError on anything else."""
    high, slash, low = text.partition("/")
    if not slash:
        raise ValueError(f"not an LSN: {text!r}")
    return Lsn((int(high, 16) << 32) | int(low, 16))


def format_lsn(lsn: int) -> str:
    """Write an LSN the way Postgres does, `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


@dataclass(frozen=True, slots=True)
class Position:
    """Everything up to and with one END has been applied.

    `end_offset` alone orders positions of a generation. `lsn` (of the commit) and `tx_id` recognise that END when it
    is read again; `next_offsets` is only where reading the change topics starts.
    """

    generation: int
    end_offset: int
    lsn: Lsn
    tx_id: int
    next_offsets: Offsets = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The position as JSON values; `from_json` reads it back."""
        return {
            "generation": self.generation,
            "end_offset": self.end_offset,
            "lsn": self.lsn,
            "tx_id": self.tx_id,
            "next_offsets": {topic: dict(parts) for topic, parts in self.next_offsets.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        offsets = {
            topic: {int(partition): offset for partition, offset in parts.items()}
            for topic, parts in value["next_offsets"].items()
        }
        return cls(value["generation"], value["end_offset"], Lsn(value["lsn"]), value["tx_id"], offsets)


BEFORE_LOG = -1
"""The end offset of a follower that holds its copies and no transaction yet."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A slot's consistent point: a copy made on its snapshot holds exactly the commits with LSN ≤ `lsn`.

    `system_identifier` and `timeline` name the history in which that LSN means something (IDENTIFY_SYSTEM,
    Postgres manual, "Streaming Replication Protocol").
    """

    lsn: Lsn
    system_identifier: int
    timeline: int

    def covers(self, commit: Lsn) -> bool:
        """Is a transaction that committed at `commit` already in the copy?"""
        return commit <= self.lsn

    def is_reached_by(self, commit: Lsn) -> bool:
        """Does a position at `commit` hold all of the copy? Before it, the copy is ahead of the position."""
        return self.lsn <= commit

    def as_json(self) -> dict[str, int]:
        return {"lsn": self.lsn, "system_identifier": self.system_identifier, "timeline": self.timeline}

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> Self:
        return cls(Lsn(value["lsn"]), value["system_identifier"], value["timeline"])
