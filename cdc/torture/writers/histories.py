"""Writers whose writes are noted, for the checks of what readers see."""

from itertools import count

from cdc.torture.checks.prefixes import Journal
from cdc.torture.checks.registers import FOREVER, Operation
from cdc.torture.tables import REGISTERS
from cdc.torture.writers.writer import Session, Writer, read_clock

_NUMBERS = 1_000_000_000
"""Values of one writer; those of the next follow."""


class RegisterWriter(Writer):
    """Writes numbers that nobody else writes, into registers that others write, too."""

    def __init__(self, name: str, seed: int, place: int) -> None:
        super().__init__(name, seed)
        self.history: list[Operation] = []
        self._values = count(place * _NUMBERS + 1)

    def write(self, session: Session) -> None:
        register, value = self.random.randint(1, REGISTERS), next(self._values)
        began, ended = read_clock(), FOREVER
        try:
            session.execute("UPDATE registers SET value = %s WHERE id = %s", (value, register))
            ended = read_clock()
        finally:
            self.history.append(Operation(register, value, True, began, ended, self.name))


class JournalWriter(Writer):
    """Appends numbers without a hole, some in one transaction; whatever was not acknowledged is tried again."""

    def __init__(self, name: str, seed: int, place: int) -> None:
        super().__init__(name, seed)
        self.place, self.journal = place, Journal()
        self._due = 0
        self._began = 0.0

    def write(self, session: Session) -> None:
        last = self.journal.last
        if self._due == last:
            self._due, self._began = last + self.random.choice((1, 1, 1, 2, 5)), read_clock()
        with session.transaction():
            entries = "SELECT %s, g FROM generate_series(%s::bigint, %s::bigint) g"
            append = f"INSERT INTO journal {entries} ON CONFLICT DO NOTHING"
            session.execute(append.encode(), (self.place, last + 1, self._due))
        self.journal.append(self._due, self._began, read_clock())
