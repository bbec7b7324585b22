"""Things that belong to a pipeline, each with how it is taken away."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cdc.core.errors import CdcError


@dataclass(frozen=True, slots=True)
class Belonging:
    """One thing of a pipeline on one of its parts. `remove` raises CdcError when it cannot; gone already is fine.

    `statements`: what removes it, of a thing in the source that may be somebody else's to remove.
    """

    kind: str
    name: str
    remove: Callable[[], object]
    detail: str = ""
    statements: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}{', ' if self.detail else ''}{self.detail}"


@dataclass(slots=True)
class Belongings:
    """What was found, in the order in which it is to be removed; `last` once nothing else is left, since by these
    a second run knows what is ours.

    `unknown`: why a part could not be looked at, as a line with the things that may be on it. `kept`: what stays, and
    why.
    """

    found: list[Belonging] = field(default_factory=list)
    last: list[Belonging] = field(default_factory=list)
    unknown: list[CdcError] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def look(self, what: str, find: Callable[["Belongings"], object]) -> None:
        """Look at one part, which may be down: `what` may then be left there."""
        try:
            find(self)
        except CdcError as error:
            self.unknown.append(
                type(error).from_text(f"{what}: {error.what}", "run `cdc teardown` again, once it answers")
            )
