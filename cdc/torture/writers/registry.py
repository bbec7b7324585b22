"""The writers by their names in a schedule."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cdc.torture.schedule import FaultSchedule
from cdc.torture.writers.histories import JournalWriter, RegisterWriter
from cdc.torture.writers.tables import Bank, Documents, Migrations, Rounds, Searches, Seats
from cdc.torture.writers.writer import Writer

CLIENTS: Final = 2
"""Writers of the same registers; each also has a journal of its own."""
_BY_NAME: Final[Mapping[str, Callable[[str, int], Sequence[Writer]]]] = {
    "registers": lambda name, seed: [RegisterWriter(f"{name}-{n}", seed, n) for n in range(CLIENTS)],
    "journal": lambda name, seed: [JournalWriter(f"{name}-{n}", seed, n) for n in range(CLIENTS)],
    "bank": lambda name, seed: [Bank(name, seed)],
    "seats": lambda name, seed: [Seats(name, seed)],
    "rounds": lambda name, seed: [Rounds(name, seed)],
    "documents": lambda name, seed: [Documents(name, seed)],
    "searches": lambda name, seed: [Searches(name, seed)],
    "migrations": lambda name, seed: [Migrations(name, seed)],
}


def make_writers(schedule: FaultSchedule) -> list[Writer]:
    """The writers of a schedule."""
    return [writer for name in schedule.writers for writer in _BY_NAME[name](name, schedule.seed)]
