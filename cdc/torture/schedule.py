"""Plans a run: who writes, how fast, and which faults come in which order. A seed plans the same on every machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from cdc.core.errors import ConfigurationError, PreconditionError

FAULTS_A_MINUTE: Final = 3
"""A fault with the quiet before it and the recovery behind it takes some 20 s on two cores."""
QUIET_SECONDS: Final = (1.0, 6.0)
LASTING_SECONDS: Final = (0.5, 8.0)
TOGETHER: Final = 0.15
"""How often a fault begins while another lasts."""
PARTS: Final = ("postgres", "kafka", "connect", "search", "follow")
LINKS: Final = ("source", "capture", "connect", "search")
KINDS: Final[Mapping[str, tuple[int, Sequence[str]]]] = {
    "kill": (10, (*PARTS, "java")),
    "stop": (8, PARTS),
    "cut": (4, LINKS),
    "silence": (4, LINKS),
    "slow": (3, LINKS),
    "lose-state": (2, ("follow",)),
    "old-state": (3, ("follow",)),
    "damage-index": (3, ("follow",)),
    "close-index": (3, ("registers", "accounts", "documents")),
    "full-disk": (3, ("lake",)),
    "set-clock": (2, ("follow",)),
    "add-partitions": (2, ("registers", "accounts", "seats")),
    "delete-topic": (1, ("journal", "documents", "rounds")),
    "forget-offsets": (1, ("connect",)),
    "drop-slot": (1, ("postgres",)),
}
"""Each kind of fault: how often it is chosen beside the others, and what it may hit."""
WRITERS: Final = ("registers", "journal", "bank", "seats", "rounds", "documents", "searches", "migrations")


class PlannedFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault: what happens to what, the quiet seconds before it, and for how many seconds it lasts.

    `number`: chooses what the kind leaves open. `together`: it begins beside the one before, which lasts meanwhile.
    """

    kind: str
    target: str
    after: float
    lasts: float
    number: int = 0
    together: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


class FaultSchedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that is planned. `rate`: transactions a second of all writers; `seed`: of what they write."""

    seed: int
    rate: float
    writers: tuple[str, ...]
    faults: tuple[PlannedFault, ...]

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def write(self, file: Path) -> None:
        """Write it to a file. Raises PreconditionError if that cannot be written."""
        try:
            file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
        except OSError as failure:
            what = f"the schedule cannot be written to {file}: {failure.strerror}"
            raise PreconditionError(what, "choose a folder that you may write") from failure

    @staticmethod
    def read(file: Path) -> "FaultSchedule":
        """Read a file that `write` wrote. Raises ConfigurationError for another one."""
        try:
            found = msgspec.json.decode(file.read_bytes(), type=FaultSchedule)
        except (OSError, msgspec.DecodeError) as failure:
            raise ConfigurationError(f"{file} is no schedule: {failure}", "name a file of `cdc torture`") from failure
        found.check()
        return found

    def check(self) -> None:
        """Raise ConfigurationError for a writer or a fault that there is not."""
        for name in self.writers:
            if name not in WRITERS:
                raise ConfigurationError(f"there is no writer {name}", f"one of {', '.join(WRITERS)}")
        for fault in self.faults:
            if fault.kind not in KINDS:
                raise ConfigurationError(f"there is no fault {fault.kind}", f"one of {', '.join(KINDS)}")
            if fault.target not in (targets := KINDS[fault.kind][1]):
                raise ConfigurationError(f"{fault.kind} does not hit {fault.target}", f"one of {', '.join(targets)}")


def plan(seed: int, minutes: float, rate: float) -> FaultSchedule:
    """Plan a run of about so many minutes."""
    random = Random(f"faults of {seed}")  # noqa: S311 - chance that comes again
    count = max(1, round(minutes * FAULTS_A_MINUTE))
    return FaultSchedule(seed, rate, WRITERS, tuple(_plan_fault(random, is_first=not n) for n in range(count)))


def _plan_fault(random: Random, *, is_first: bool) -> PlannedFault:
    kind = random.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    return PlannedFault(
        kind=kind,
        target=random.choice(KINDS[kind][1]),
        after=round(random.uniform(*QUIET_SECONDS), 1),
        lasts=round(random.uniform(*LASTING_SECONDS), 1),
        number=random.randrange(1_000_000),
        together=random.random() < TOGETHER and not is_first,
    )


def group(faults: Sequence[PlannedFault]) -> list[list[PlannedFault]]:
    """The faults that last at once, in their order."""
    groups = list[list[PlannedFault]]()
    for fault in faults:
        if fault.together and groups:
            groups[-1].append(fault)
        else:
            groups.append([fault])
    return groups
