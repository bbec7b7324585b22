"""A source's history: the same LSN means another commit on another cluster, or behind a fork of the timeline."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.core.errors import RECAPTURE, HistoryLostError
from cdc.core.position import Bookmark, Lsn, format_lsn, parse_lsn

REMEDY = f"{RECAPTURE}, since what the followers hold is not this source's past"


@dataclass(frozen=True, slots=True)
class SourceTimeline:
    """A source's cluster, its timeline, the LSN at which each earlier timeline ended, and its current LSN.

    A restored or promoted server starts a new timeline at the LSN where it leaves the old one. Later writes of the old
    server are not in its history (Postgres manual, "Timelines"). `upgraded`: the clusters that pg_upgrade has made this
    one of, each with an LSN above all of its own.
    """

    system_identifier: int
    timeline: int
    end: Lsn
    timeline_ends: Mapping[int, Lsn] = field(default_factory=dict)
    upgraded: Mapping[int, Lsn] = field(default_factory=dict)

    def contains(self, mark: Bookmark) -> bool:
        """Is the bookmark's LSN, on its timeline and cluster, in this history?"""
        if mark.system_identifier in self.upgraded:
            return mark.lsn <= self.upgraded[mark.system_identifier]
        if mark.system_identifier != self.system_identifier:
            return False
        # above the end: the source was restored to an older state without a new timeline
        if mark.timeline == self.timeline:
            return mark.lsn <= self.end
        return mark.timeline in self.timeline_ends and mark.lsn <= self.timeline_ends[mark.timeline]

    def check(self, mark: Bookmark, whose: str) -> None:
        """Raise HistoryLostError when the bookmark of `whose` copy is not in this history."""
        # first: the LSNs of two clusters cannot be compared at all
        if mark.system_identifier not in {self.system_identifier, *self.upgraded}:
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


def parse_timeline_history(content: str) -> dict[int, Lsn]:
    """Read a timeline history file into timeline → LSN at its end.

    A line has a timeline, an LSN and a reason; `#` begins a comment.
    """
    lines = (line.split() for line in content.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return {int(fields[0]): parse_lsn(fields[1]) for fields in lines}
