"""COPY as the source sees it: to nothing, for a bound on what any copy can reach, and watched while others copy."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import sql

from tests.bench.world.source import Source
from tests.bench.world.watching import repeated

LOOK_SECONDS = 0.02
_COPYING = "SELECT 1 FROM pg_stat_progress_copy WHERE datname = current_database() AND command = 'COPY TO' LIMIT 1"


def copy_to_nothing(source: Source, table: str, half: int) -> None:
    """Let Postgres write one half of a table's pages, in the binary form, to where nobody reads it."""
    with source.connection() as connection:
        name = sql.Identifier(table)
        pages = connection.execute(sql.SQL("SELECT pg_relation_size({}) / 8192").format(sql.Literal(table))).fetchone()
        middle = sql.Literal(f"({(pages or (0,))[0] // 2},0)")
        where = sql.SQL("ctid < {}::tid" if half == 0 else "ctid >= {}::tid").format(middle)
        chosen = sql.SQL("SELECT * FROM {} WHERE {}").format(name, where)
        connection.execute(sql.SQL("COPY ({}) TO '/dev/null' (FORMAT binary)").format(chosen))


@dataclass(slots=True)
class Copies:
    """When the first COPY out of the database was seen, by the wall clock."""

    began: float | None = None


@contextmanager
def copies_seen(source: Source) -> Iterator[Copies]:
    """Look for the first COPY as long as the context lasts."""
    copies = Copies()
    with source.connection() as connection:

        def look() -> None:
            if copies.began is None and connection.execute(_COPYING).fetchone():
                copies.began = time.time()

        with repeated(look, LOOK_SECONDS):
            yield copies
