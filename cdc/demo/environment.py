"""The environment of a demo: local services, a database of its own, and a configuration beside the state folder."""

from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql

from cdc.cli import output
from cdc.cli.progress import open_progress
from cdc.config import init
from cdc.config.file import load
from cdc.config.settings import PipelineSettings
from cdc.core.errors import UnreachableError
from cdc.local import services
from cdc.local.endpoints import Endpoints
from cdc.local.state_dir import Home
from cdc.postgres.values import read_value


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The names of one demo: `file` of its configuration, `name` of its pipeline and database, tables and lake."""

    file: str
    name: str
    tables: tuple[str, ...]
    lake: str


@dataclass(frozen=True, slots=True)
class Environment:
    """A demo that is set up. `config`: its file, read as `settings`."""

    home: Home
    endpoints: Endpoints
    config: Path
    settings: PipelineSettings

    @property
    def dsn(self) -> str:
        """The connection string of the demo's database, with its password."""
        return self.endpoints.postgres_dsn(self.settings.source.dbname)


def start_services(home: Home) -> Endpoints:
    """Start every local service, with progress on stderr. Raises as `cdc.local.services.up` does."""
    with open_progress() as progress:
        return services.up(home, None, progress)


def set_up_environment(home: Home, endpoints: Endpoints, demo: DemoSettings) -> Environment:
    """Make the demo's database and write its configuration, if they are missing.

    A new database has a new history: so the lake of an earlier one is put aside, and the configuration rewritten.
    """
    config = home.path.parent / demo.file
    fresh = _make_database(endpoints, demo.name)
    if fresh:
        # its positions belong to the log of the old database
        put_aside(config.parent / demo.lake)
    # a second run keeps the user's changes of the file
    if fresh or not config.exists():
        values = replace(
            init.local_values(config), name=demo.name, tables=demo.tables, dbname=demo.name, lake=demo.lake
        )
        init.write(config, values, force=True)
    return Environment(home, endpoints, config, load(config))


def put_aside(lake: Path) -> None:
    """Rename a lake that is there: whose it is nobody has asked, and no lake is removed unasked."""
    if not lake.exists():
        return
    other = next(place for number in count(1) if not (place := lake.with_name(f"{lake.name}-{number}")).exists())
    lake.rename(other)
    output.say(f"the lake of an earlier database was put aside: {output.relative_path(other)}")


def _make_database(endpoints: Endpoints, name: str) -> bool:
    """Make the database if it is missing; returns whether it was."""
    try:
        # CREATE DATABASE cannot run in a transaction, and has no IF NOT EXISTS
        with psycopg.connect(endpoints.postgres_dsn(), autocommit=True) as connection:
            if read_value(connection, "SELECT 1 FROM pg_database WHERE datname = %s", name):
                return False
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            return True
    except psycopg.OperationalError as error:
        raise UnreachableError(f"the local Postgres does not answer: {error}", "see `cdc parts`") from error
