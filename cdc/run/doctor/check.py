"""A check: a function that asks the parts and yields what is wrong, registered under a stable name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from cdc.core.errors import CdcError, PreconditionError
from cdc.run.doctor.fixes import Fix

if TYPE_CHECKING:
    from cdc.run.doctor.parts import AskedParts

CHECK_SECONDS: Final = 8.0
"""After which a check counts as one without an answer."""


class Severity(StrEnum):
    """Error: it will not work, or loses changes. Warning: some day it may not. Note: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong (`what`), with which object, and what helps; `fixes`: as far as the source's administrator does it.

    `kind`: the error that a verb meets.
    """

    object: str
    what: str
    remedy: str
    fixes: tuple[Fix, ...] = ()
    kind: type[CdcError] = PreconditionError

    @classmethod
    def of(cls, about: str, error: CdcError, *fixes: Fix) -> "Fault":
        """The problem that an error tells of."""
        return cls(about, error.what, error.remedy, fixes, type(error))

    def to_error(self) -> CdcError:
        return self.kind.from_text(self.what, self.remedy)


Look = Callable[["AskedParts"], Iterable[Fault]]


@dataclass(frozen=True, slots=True)
class Check:
    """A registered check. Its docstring says what has to hold, `why` what happens where it does not.

    `at_bootstrap`: the bootstrap runs it before anything is made; it mends, or tells itself, what the others find.
    """

    name: str
    severity: Severity
    why: str
    look: Look
    seconds: float = CHECK_SECONDS
    at_bootstrap: bool = True

    @property
    def category(self) -> str:
        return self.name.partition(".")[0]

    @property
    def question(self) -> str:
        return (self.look.__doc__ or "").strip().splitlines()[0]


_registered: dict[str, Check] = {}


def check(
    name: str, severity: Severity, why: str, *, seconds: float = CHECK_SECONDS, at_bootstrap: bool = True
) -> Callable[[Look], Look]:
    """Register a check under `category.name`."""

    def register(look: Look) -> Look:
        assert name not in _registered, name
        _registered[name] = Check(name, severity, why, look, seconds, at_bootstrap)
        return look

    return register


def registered_checks() -> tuple[Check, ...]:
    """All checks, category by category in the order of `cdc.run.doctor.checks`."""
    # here: they import what only a doctor needs
    from cdc.run.doctor import checks

    order = {category: number for number, category in enumerate(checks.load_all())}
    return tuple(sorted(_registered.values(), key=lambda found: order[found.category]))
