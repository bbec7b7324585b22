"""Writers whose tables are compared with the followers' row by row, and have a law that holds at every commit."""

import json
from typing import ClassVar

from cdc.torture.tables import ACCOUNTS, DOCUMENTS, LONG, PARCELS, SEATS
from cdc.torture.writers.writer import Session, Writer


class Bank(Writer):
    """Moves money between accounts, and rolls some transfers back: together all have the same at every commit."""

    share: ClassVar[float] = 3.0

    def write(self, session: Session) -> None:
        one, other = self.random.sample(range(1, ACCOUNTS + 1), 2)
        amount, is_undone = self.random.randint(1, 100), self.random.random() < 0.05
        with session.transaction(force_rollback=is_undone):
            # in one order: two that wait for each other would be a deadlock, were there a second bank
            for account in sorted((one, other)):
                sign = -1 if account == one else 1
                session.execute("UPDATE accounts SET balance = balance + %s WHERE id = %s", (sign * amount, account))


class Seats(Writer):
    """Swaps the keys of two rows in one transaction, and gives rows other keys."""

    def write(self, session: Session) -> None:
        one, other = self.random.sample(range(1, SEATS + 1), 2)
        with session.transaction():
            for old, new in ((one, -one), (other, one), (-one, other)):
                session.execute("UPDATE seats SET id = %s WHERE id = %s", (new, old))
            if self.random.random() < 0.3:
                session.execute("UPDATE seats SET guest = guest || '.' WHERE id = %s AND length(guest) < 40", (one,))


class Rounds(Writer):
    """Empties its table and fills it with the rows of the next round, in one transaction; between, some rows change."""

    share: ClassVar[float] = 0.5

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self._round = 0

    def write(self, session: Session) -> None:
        if self.random.random() < 0.7:
            key = self.random.randint(1, 10)
            session.execute("UPDATE rounds SET n = n + 1 WHERE id = %s", (key,))
            return
        self._round += 1
        rows = self.random.randint(1, 20)
        with session.transaction():
            session.execute("TRUNCATE rounds")
            session.execute("INSERT INTO rounds SELECT g, %s, g FROM generate_series(1, %s) g", (self._round, rows))


class Documents(Writer):
    """Leaves long values alone, changes them, deletes their rows, and puts them back."""

    def write(self, session: Session) -> None:
        key, pick = self.random.randint(1, DOCUMENTS), self.random.random()
        if pick < 0.7:
            session.execute("UPDATE documents SET size = size + 1 WHERE id = %s", (key,))
        elif pick < 0.85:
            text = self.random.choice("xyz") * self.random.choice((10, LONG))
            session.execute("UPDATE documents SET body = %s WHERE id = %s", (text, key))
        elif pick < 0.93:
            session.execute("DELETE FROM documents WHERE id = %s", (key,))
        else:
            again = "INSERT INTO documents VALUES (%s, 0, %s) ON CONFLICT (id) DO UPDATE SET size = 0"
            session.execute(again, (key, "n" * LONG))


class Searches(Writer):
    """Saves searches, changes them, and deletes them."""

    share: ClassVar[float] = 0.1

    def write(self, session: Session) -> None:
        key, least = self.random.randint(3, 12), self.random.randint(500, 1500)
        if self.random.random() < 0.3:
            session.execute("DELETE FROM searches WHERE id = %s", (key,))
            return
        query = json.dumps({"range": {"balance": {"gt": least}}})
        save = "INSERT INTO searches VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET query = excluded.query"
        session.execute(save, (key, query))


class Migrations(Writer):
    """Changes the schema of a table, and writes it before and behind that."""

    share: ClassVar[float] = 0.3

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self._numbers = 0

    def write(self, session: Session) -> None:
        if self.random.random() < 0.98:
            key = self.random.randint(1, PARCELS)
            session.execute("UPDATE parcels SET weight = weight + 1 WHERE id = %s", (key,))
            return
        self._numbers += 1
        session.execute(self._change().encode())

    def _change(self) -> str:
        """A statement that can be repeated, since one that was not acknowledged may have been committed."""
        number, pick = self._numbers, self.random.random()
        if pick < 0.4:
            return f"ALTER TABLE parcels ADD COLUMN IF NOT EXISTS added{number} text"
        if pick < 0.5:
            return f"ALTER TABLE parcels ADD COLUMN IF NOT EXISTS added{number} text DEFAULT 'old'"
        if pick < 0.8:
            return f"ALTER TABLE parcels DROP COLUMN IF EXISTS added{self.random.randint(1, number)}"
        return f"ALTER TABLE parcels ALTER weight TYPE {self.random.choice(('int', 'bigint'))}"
