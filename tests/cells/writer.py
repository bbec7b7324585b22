"""Writes beside every cell: orders, transfers, names and saved searches, in whole transactions."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from tests.support.parts.pipelines import Pipeline

PAUSE_SECONDS: Final = 0.1
FRESH: Final = 100_000
Step = tuple[str, tuple[object, ...]]


class Writer:
    """Writes on a session of its own, which it opens anew when the source has gone; the same seed writes the same."""

    def __init__(self, pipeline: Pipeline, seed: int) -> None:
        self._pipeline = pipeline
        self._random = random.Random(seed)
        self._fresh = FRESH + 1000 * seed
        self.written = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Transactions go on as long as the context lasts."""
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _run(self, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                with self._pipeline.servers.connect(self._pipeline.settings.source.dbname) as session:
                    while not ended.wait(PAUSE_SECONDS):
                        with session.transaction():
                            for statement, values in self._transaction():
                                session.execute(statement.encode(), values)
                        self.written += 1
            except psycopg.Error:
                ended.wait(PAUSE_SECONDS)

    def _transaction(self) -> Iterator[Step]:
        pick, key = self._random.random(), self._random.randrange(1, 100)
        self._fresh += 1
        if pick < 0.3:
            yield "INSERT INTO orders VALUES (%s, %s, %s, %s)", (self._fresh, key % 10, key, "x" * 2500)
        elif pick < 0.5:
            yield "UPDATE orders SET n = n + 1 WHERE id %% 25 = %s", (key % 25,)
        elif pick < 0.6:
            yield "UPDATE orders SET id = %s WHERE id = (SELECT max(id) FROM orders)", (self._fresh,)
        elif pick < 0.7:
            yield "DELETE FROM orders WHERE id = (SELECT min(id) FROM orders WHERE id > %s)", (FRESH,)
        elif pick < 0.75:
            yield "UPDATE customers SET name = name || '.' WHERE id = %s", (key % 10,)
        elif pick < 0.8:
            query = '{"range": {"n": {"gt": ' + str(key) + "}}}"
            yield (
                "INSERT INTO saved_searches VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET query = EXCLUDED.query",
                (key % 5 + 1, query),
            )
        else:
            one, other = self._random.sample(range(1, 21), 2)
            yield "UPDATE accounts SET balance = balance - %s WHERE id = %s", (key, one)
            yield "UPDATE accounts SET balance = balance + %s WHERE id = %s", (key, other)
