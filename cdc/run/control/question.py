"""What a verb would do and cost, before it does it: the words are the same on the command line and on the page."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cdc.core.errors import CdcError


class ControlVerb(StrEnum):
    """The verbs that act on the capture, or on one follower's stream."""

    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Question:
    """One verb on one object, as things stand now.

    `happens`, `costs`, `stays`: sentences. `refused`: why it would fail or do nothing; None if it can be done.
    """

    verb: ControlVerb
    on: str
    happens: str
    costs: str
    stays: str
    refused: CdcError | None = None

    @property
    def command(self) -> str:
        """The same on the command line."""
        return f"cdc {self.verb} {self.on}"

    @property
    def lines(self) -> list[str]:
        return [f"{self.verb} {self.on}: {self.happens}", f"it costs: {self.costs}", f"it leaves: {self.stays}"]

    def as_json(self) -> dict[str, Any]:
        return {
            "verb": self.verb.value,
            "on": self.on,
            "happens": self.happens,
            "costs": self.costs,
            "stays": self.stays,
            "command": self.command,
            "refused": str(self.refused) if self.refused else None,
        }
