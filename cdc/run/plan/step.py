"""The steps of a plan, as lines of a diff."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Sign(StrEnum):
    """What happens to a thing."""

    MAKE = "+"
    CHANGE = "~"
    LEAVE = "-"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One thing that a bootstrap makes, changes or leaves: `kind` and `name` say which, `detail` what of it."""

    sign: Sign
    kind: str
    name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.sign} {self.kind} {self.name}{': ' if self.detail else ''}{self.detail}"

    def as_json(self) -> dict[str, Any]:
        return {"sign": self.sign.value, "kind": self.kind, "name": self.name, "detail": self.detail or None}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a bootstrap would do: nothing without `steps`. `notices`: what it would say besides."""

    steps: Sequence[PlannedStep]
    notices: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        return {"steps": [step.as_json() for step in self.steps], "notices": list(self.notices)}
