"""Checks the file against the source, if that answers within seconds: for verbs that need none of it to run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from psycopg import Connection

from cdc.config.settings import PipelineSettings
from cdc.connect.source.access.connection import open_connection
from cdc.connect.source.relation import read_shapes
from cdc.core.table import TableName

LIMIT_SECONDS: Final = 5
"""For the session to open, and for each statement."""


@contextmanager
def open_briefly(settings: PipelineSettings) -> Iterator[Connection[Any]]:
    """Open a session on the source that waits for nothing. Raises like `open_connection`."""
    source = settings.source
    seconds = min(source.connect_timeout_seconds, LIMIT_SECONDS)
    with open_connection(source.model_copy(update={"connect_timeout_seconds": seconds})) as connection:
        connection.execute(f"SET statement_timeout = '{LIMIT_SECONDS}s'")
        yield connection


def find_absent(settings: PipelineSettings, names: Sequence[TableName]) -> list[TableName]:
    """Those of these tables that the source does not have. Raises CdcError where it does not answer."""
    with open_briefly(settings) as connection:
        there = read_shapes(connection, names)
    return [name for name in names if name not in there]
