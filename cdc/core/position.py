"""Positions in the log, and the bookmark that ties a copy to the log.

Offsets have no order across partitions, and LSNs have none inside a transaction. So a position counts commits: it is
the offset of a transaction's END in the transaction topic, which has one partition.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NewType, Self

Lsn = NewType("Lsn", int)
"""A byte position in the write-ahead log (Postgres manual, "pg_lsn Type")."""

# as Postgres reads it: int() would take a sign, blanks, and `_` too
_LSN: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")

Offsets = Mapping[str, Mapping[int, int]]
"""Topic → partition → the next offset to read."""


def without_topic(offsets: Offsets, topic: str) -> Offsets:
    """The offsets of all other topics."""
    return {name: at for name, at in offsets.items() if name != topic}


def parse_lsn(text: str) -> Lsn:
    """Read Postgres's `16/B374D848` form; raises ValueError on anything else."""
    if not (parts := _LSN.fullmatch(text)):
        raise ValueError(f"not an LSN: {text!r}")
    return Lsn((int(parts[1], 16) << 32) | int(parts[2], 16))


def format_lsn(lsn: int) -> str:
    """Write an LSN the way Postgres does, `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


@dataclass(frozen=True, slots=True)
class LogStart:
    """The start of a capture in the transaction topic: the message at `topic_offset` counts as `end_offset`.

    `number`: the number of captures so far, with this one. `lsn`: the log has every commit above it. A recapture goes
    on counting ENDs, even in a new topic: so positions, table versions and document versions only grow.
    """

    topic_offset: int = 0
    end_offset: int = 0
    number: int = 1
    lsn: Lsn = Lsn(0)

    def to_end_offset(self, topic_offset: int) -> int:
        """Convert an offset of the topic into an END offset of positions."""
        return topic_offset - self.topic_offset + self.end_offset

    def to_topic_offset(self, end_offset: int) -> int:
        """Convert an END offset of positions into an offset of the topic."""
        return end_offset - self.end_offset + self.topic_offset


FIRST_LOG: Final = LogStart()
"""The first capture of a pipeline: both offsets are the same."""


@dataclass(frozen=True, slots=True)
class Position:
    """Every transaction up to and including one END is applied.

    `end_offset` alone orders positions. `lsn` (of the commit) and `tx_id` identify that END when it is read again.
    `next_offsets` only says where to start reading the change topics. `log_start` converts `end_offset` to an offset
    of the transaction topic. `beat`: the digest of the last applied heartbeat, if known. `cut`: the id of the lake's
    cut at this position, None without one: a lake that was restored to an older state reaches the same END by another.
    """

    end_offset: int
    lsn: Lsn
    tx_id: int
    next_offsets: Offsets = field(default_factory=dict)
    log_start: LogStart = FIRST_LOG
    beat: str | None = None
    # not compared: the same END may be in two cuts, after a restore of the lake
    cut: str | None = field(default=None, compare=False)

    @property
    def has_end(self) -> bool:
        """Is an END applied? Before the first one, a follower has only its copies."""
        # no transaction has the id 0 (Postgres manual, "Transactions and Identifiers")
        return self.tx_id != 0

    @property
    def topic_offset(self) -> int:
        """The offset of its END in the transaction topic."""
        return self.log_start.to_topic_offset(self.end_offset)

    def covers(self, other: "Position") -> bool:
        """Is everything up to the `other` position applied at this one?"""
        return other.end_offset <= self.end_offset

    def as_json(self) -> dict[str, Any]:
        return {
            "end_offset": self.end_offset,
            "lsn": self.lsn,
            "tx_id": self.tx_id,
            "next_offsets": {topic: dict(parts) for topic, parts in self.next_offsets.items()},
            "log_start": asdict(self.log_start),
            "beat": self.beat,
            "cut": self.cut,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        offsets = _parse_offsets(value["next_offsets"])
        end, lsn, tx_id, start = value["end_offset"], Lsn(value["lsn"]), value["tx_id"], LogStart(**value["log_start"])
        return cls(end, lsn, tx_id, offsets, start, value["beat"], value["cut"])


# below the first offset of a topic, so every END is above it
BEFORE_LOG = -1
"""The END offset of a follower that has its copies and no transaction yet."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The consistent point of a slot: a copy on the slot's snapshot has exactly the commits with LSN ≤ `lsn`.

    `system_identifier` and `timeline` name the history of that LSN (IDENTIFY_SYSTEM, Postgres manual, "Streaming
    Replication Protocol").

    `topic_ends`: the ends of the table's change topic, read before the slot was made. All messages below them belong to
    commits that the copy has, or to a past that the source has lost: no reader needs them. A partition without an end
    is read from its beginning. `order_end`: the end of the transaction topic, read before those: the END of a message
    behind `topic_ends` is at or behind it.
    """

    lsn: Lsn
    system_identifier: int
    timeline: int
    # not compared: a copy is named by its LSN and that LSN's history
    topic_ends: Offsets = field(default_factory=dict, compare=False)
    order_end: int = field(default=0, compare=False)

    def covers(self, commit: Lsn) -> bool:
        """Does the copy contain a transaction that committed at `commit`?"""
        return commit <= self.lsn

    def is_reached_by(self, commit: Lsn) -> bool:
        """Does a position at `commit` contain all of the copy? Before it, the copy is ahead of the position."""
        return self.lsn <= commit

    def as_json(self) -> dict[str, Any]:
        return {
            "lsn": self.lsn,
            "system_identifier": self.system_identifier,
            "timeline": self.timeline,
            "topic_ends": {topic: dict(parts) for topic, parts in self.topic_ends.items()},
            "order_end": self.order_end,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        # what is derived from a table has no topic
        ends = _parse_offsets(value.get("topic_ends", {}))
        return cls(Lsn(value["lsn"]), value["system_identifier"], value["timeline"], ends, value.get("order_end", 0))


def _parse_offsets(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    # JSON's keys are text, partitions are numbers
    return {topic: {int(partition): at for partition, at in parts.items()} for topic, parts in value.items()}
