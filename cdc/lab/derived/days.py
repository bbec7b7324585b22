"""Orders that are written day after day, as long as a lab asks for them."""

from random import Random
from threading import Event, Lock, Thread
from typing import Final

import psycopg

from cdc.run.read.tokens import take_token

COUNTRIES: Final = ("AT", "BR", "DE", "FR", "IN", "JP")
USUAL: Final = 5
LAST: Final = 300
"""Orders of a transaction, and of the last one of a day."""
PAUSE_SECONDS: Final = 0.05


class OrdersWriter(Thread):
    """Writes orders of the present day until it is stopped."""

    def __init__(self, dsn: str, random: Random, stopping: Event) -> None:
        super().__init__(daemon=True)
        self._session = psycopg.connect(dsn, autocommit=True)
        self._random, self._stopping, self._turn = random, stopping, Lock()
        self.day, self.transactions = 0, 0

    def run(self) -> None:
        with self._session:
            # a pause stands for whatever else a shop does
            while not self._stopping.wait(PAUSE_SECONDS):
                with self._turn:
                    self._write(USUAL)
                    self.transactions += 1

    def end_day(self) -> str:
        """Write the last transaction of the day, and begin the next day; returns the token of the end."""
        with self._turn:
            self._write(LAST)
            self.day += 1
            self.transactions = 0
            return take_token(self._session)

    def _write(self, orders: int) -> None:
        rows = [(self.day, self._random.choice(COUNTRIES), self._random.randint(100, 99_999)) for _ in range(orders)]
        query = "INSERT INTO orders (day, country, cents) SELECT * FROM unnest(%s::int[], %s::text[], %s::bigint[])"
        self._session.execute(query, [list(column) for column in zip(*rows, strict=True)])
