"""Where a follower stands in the log, and what ties a copy to the log.

Offsets order nothing across partitions and LSNs order nothing inside a transaction, so the clock is the commit:
the offset of a transaction's END in the one partition of the transaction topic.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NewType, Self

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
class LogStart:
    """Where a capture begins in the transaction topic: the message at `topic_offset` there counts as `end_offset`.

    `number`: how many captures there were, this one among them. `lsn`: the log has every commit above it. The count of
    ENDs goes on when the capture starts anew, also in a topic that was made anew: positions, versions of tables and of
    documents only grow.
    """

    topic_offset: int = 0
    end_offset: int = 0
    number: int = 1
    lsn: Lsn = Lsn(0)

    def counted(self, topic_offset: int) -> int:
        """An offset of the topic in the count of positions."""
        return topic_offset - self.topic_offset + self.end_offset

    def in_topic(self, end_offset: int) -> int:
        """An offset of the count as the topic has it."""
        return end_offset - self.end_offset + self.topic_offset


FIRST_LOG: Final = LogStart()
"""The first capture of a pipeline: the topic's own offsets."""


@dataclass(frozen=True, slots=True)
class Position:
    """Everything up to and with one END has been applied.

    `end_offset` alone orders positions of a generation. `lsn` (of the commit) and `tx_id` recognise that END when it
    is read again; `next_offsets` is only where reading the change topics starts. `log_start`: what `end_offset` is in
    the transaction topic. `beat`: the digest of the last heartbeat applied, where one is known. `cut`: the id of the
    lake's cut that the position is of, None where there is none or an older version of ours made it; a lake that was
    put back to an older state comes to the same END by another cut.
    """

    generation: int
    end_offset: int
    lsn: Lsn
    tx_id: int
    next_offsets: Offsets = field(default_factory=dict)
    log_start: LogStart = FIRST_LOG
    beat: str | None = None
    cut: str | None = field(default=None, compare=False)

    @property
    def has_end(self) -> bool:
        """Is there an END that it stands at? Before the first one, a follower has only its copies."""
        # no transaction has the id 0 (Postgres manual, "Transactions and Identifiers")
        return self.tx_id != 0

    @property
    def topic_offset(self) -> int:
        """The offset in the transaction topic of the END that it stands at."""
        return self.log_start.in_topic(self.end_offset)

    def as_json(self) -> dict[str, Any]:
        """The position as JSON values; `from_json` reads it back."""
        return {
            "generation": self.generation,
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
        offsets = {
            topic: {int(partition): offset for partition, offset in parts.items()}
            for topic, parts in value["next_offsets"].items()
        }
        # positions that older versions wrote know of one capture, and of no chain of heartbeats
        start = LogStart(**value.get("log_start", {}))
        return cls(
            value["generation"],
            value["end_offset"],
            Lsn(value["lsn"]),
            value["tx_id"],
            offsets,
            start,
            value.get("beat"),
            value.get("cut"),
        )


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
