"""What every demo stands on: the local parts, a database of its own, and a configuration beside the state folder."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from psycopg import sql

from cdc.cli.fetch_progress import open_download_progress
from cdc.config import init
from cdc.config.file import load
from cdc.config.settings import PipelineSettings
from cdc.core.errors import UnreachableError
from cdc.local import services as parts
from cdc.local.endpoints import Endpoints
from cdc.local.state_dir import Home


@dataclass(frozen=True, slots=True)
class Play:
    """What one demo is called: its configuration's file name, its pipeline and database, its tables and its lake."""

    file: str
    name: str
    tables: tuple[str, ...]
    lake: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A demo set up: `config` is its file, `settings` what that says, and `fresh` whether its database is new."""

    home: Home
    endpoints: Endpoints
    config: Path
    settings: PipelineSettings
    fresh: bool

    @property
    def dsn(self) -> str:
        """The demo's database as libpq reaches it; holds the password."""
        return self.endpoints.postgres_dsn(self.settings.source.dbname)


def parts_up(home: Home) -> Endpoints:
    """Bring every local part up, and tell how; raises as `cdc.local.services.up` does."""
    with open_download_progress() as progress:
        return parts.up(home, None, progress)


def set_up(home: Home, found: Endpoints, play: Play) -> Stage:
    """Make the demo's database and write its configuration, where they are not there yet.

    A new database has a new history: a lake left over from an earlier one is removed, and the configuration rewritten.
    """
    config = home.path.parent / play.file
    fresh = _database(found, play.name)
    if fresh:
        shutil.rmtree(config.parent / play.lake, ignore_errors=True)
    if fresh or not config.exists():
        values = replace(
            init.local_values(config), name=play.name, tables=play.tables, dbname=play.name, lake=play.lake
        )
        init.write(config, values, force=True)
    return Stage(home, found, config, load(config), fresh)


def shown(path: Path) -> str:
    """The path as seen from here, where it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _database(found: Endpoints, name: str) -> bool:
    """Make the database if it is missing; says whether it was."""
    try:
        with psycopg.connect(found.postgres_dsn(), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
                return False
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            return True
    except psycopg.OperationalError as error:
        raise UnreachableError(f"the local Postgres does not answer: {error}", "see `cdc parts`") from error
