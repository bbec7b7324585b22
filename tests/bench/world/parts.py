"""The real parts for a bench, in a folder of their own: `cdc up` before, `cdc down --wipe` after."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.bench.meter.meter import Meter
from tests.bench.world.jobs import cdc_command, run

PARTS = "parts.yaml"
"""The configuration that `cdc up` would read if there were one: it says which folder is meant."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts of `folder` answer."""

    folder: Path
    host: str
    port: int
    user: str
    password: str
    kafka: str
    connect: str
    search: str

    def conninfo(self, database: str = "postgres") -> str:
        """How libpq reaches a database; holds the password."""
        return f"host={self.host} port={self.port} user={self.user} password={self.password} dbname={database}"

    def connection(self, database: str = "postgres") -> "psycopg.Connection[Any]":
        return psycopg.connect(self.conninfo(database), autocommit=True)

    def make_database(self, name: str) -> None:
        with self.connection() as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


@contextmanager
def parts_up(meter: Meter, folder: Path) -> Iterator[Parts]:
    """All parts, up as long as the context lasts; the meter watches them by their names."""
    config = folder / PARTS
    pids: list[int] = []
    try:
        found = run(meter, cdc_command(config, "up", "--json"), folder).json()
        for part in run(meter, cdc_command(config, "parts", "--json"), folder).json():
            meter.watch(part["pid"], part["part"])
            pids.append(part["pid"])
        yield _parts(folder, found)
    finally:
        for pid in pids:
            meter.leave(pid)
        run(meter, cdc_command(config, "down", "--wipe", "--yes"), folder)


def _parts(folder: Path, found: dict[str, Any]) -> Parts:
    return Parts(
        folder,
        found["postgres_host"],
        found["postgres_port"],
        found["postgres_user"],
        Path(found["postgres_password"]).read_text().strip(),
        found["kafka_bootstrap"],
        found["connect_url"].replace("://", f"://connect:{Path(found['connect_password']).read_text().strip()}@"),
        found["search_url"],
    )
