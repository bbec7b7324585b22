"""The plan of a recapture that `cdc follow` makes by itself, behind a slot that it has dropped.

It is a file, so a process that is killed at any moment is followed by one that goes on with it. Where the file is lost,
`cdc follow` says that the slot is gone, and somebody runs `cdc recapture`.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Self

import msgspec

from cdc.core.errors import HistoryLostError
from cdc.core.text.plural import format_bytes
from cdc.run.health.result import format_time
from cdc.run.pipeline import Pipeline


class SlotDropPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Why the slot was dropped, and from where on. `at`: seconds since 1970. `lsn`: the lake's position then.

    `retained_bytes`: the WAL that it kept; `freed_bytes`: what of that no other slot keeps. `capture`: the number of
    the capture that the lake followed.
    """

    at: float
    slot: str
    why: str
    retained_bytes: int
    freed_bytes: int
    lsn: str
    capture: int

    @classmethod
    def read(cls, pipeline: Pipeline) -> Self | None:
        """The plan that is not done yet; None without one, or for one that is not whole."""
        text = pipeline.requests.read_recapture()
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(text, type=cls) if text else None
        return None

    def write(self, pipeline: Pipeline) -> None:
        """Raises PreconditionError when it cannot be kept."""
        pipeline.requests.note_recapture(msgspec.json.encode(self).decode())

    def lines(self, pipeline: Pipeline) -> Iterator[str]:
        """The plan for people, a line a step."""
        connector = pipeline.settings.connect.connector
        yield f"slot {self.slot} is dropped: {self.why}"
        yield f"that frees {format_bytes(self.freed_bytes)} of WAL on the source, at its next checkpoint"
        yield f"connector {connector} begins anew, and all tables are copied again, as soon as all parts answer"
        yield "until then readers see the rows of now; nobody has to run anything"
        if pipeline.settings.histories:
            yield f"histories get no version of what is committed above {self.lsn} until the copies are made"

    def describe(self) -> HistoryLostError:
        """What to tell as long as it is not done."""
        return HistoryLostError(
            f"slot {self.slot} was dropped at {format_time(self.at)}: {self.why}",
            "`cdc follow` begins the capture anew and copies all tables by itself; `cdc recapture` does it now",
        )
