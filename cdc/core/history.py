"""Which past a source's LSNs belong to: the same LSN means something else in another one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.core.errors import RECAPTURE, HistoryLostError
from cdc.core.position import Bookmark, Lsn, format_lsn, parse_lsn

REMEDY = f"{RECAPTURE}, since what the followers hold is not this source's past"


@dataclass(frozen=True, slots=True)
class History:
    """A source's past: its cluster, its timeline, where each earlier timeline was left, and where it ends now.

    A restored or promoted server begins a new timeline at the LSN where it left the old one; what the old server wrote
    behind that LSN is not in its past (Postgres manual, "Timelines").
    """

    system_identifier: int
    timeline: int
    end: Lsn
    left_at: Mapping[int, Lsn] = field(default_factory=dict)

    def contains(self, mark: Bookmark) -> bool:
        """Is this LSN, on this timeline of this cluster, in the source's past?"""
        if mark.system_identifier != self.system_identifier:
            return False
        if mark.timeline == self.timeline:
            return mark.lsn <= self.end
        return mark.timeline in self.left_at and mark.lsn <= self.left_at[mark.timeline]

    def check(self, mark: Bookmark, whose: str) -> None:
        """Raise HistoryLostError, naming `whose` LSN it is, when it is not in the source's past."""
        if mark.system_identifier != self.system_identifier:
            raise HistoryLostError(
                f"the source is cluster {self.system_identifier}, {whose} was copied from {mark.system_identifier}",
                f"correct source.host, or {REMEDY}",
            )
        if not self.contains(mark):
            raise HistoryLostError(
                f"{whose} is at {format_lsn(mark.lsn)} of timeline {mark.timeline}, which is not in the past of the"
                f" source (timeline {self.timeline}, {format_lsn(self.end)}): it was restored or failed over",
                REMEDY,
            )


def left_at(content: str) -> dict[int, Lsn]:
    """Read a timeline history file: earlier timeline, the LSN at which it was left, a reason; `#` begins a comment."""
    lines = (line.split() for line in content.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return {int(fields[0]): parse_lsn(fields[1]) for fields in lines}
