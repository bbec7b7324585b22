"""What a query answers, for a query of one value."""

from typing import Any

from psycopg import Connection
from psycopg.abc import QueryNoTemplate
from psycopg.rows import scalar_row


def read_value(connection: Connection[Any], query: QueryNoTemplate, *values: object) -> Any:
    """Read the first value of the first row, whatever rows the connection makes; None if there is no row."""
    return connection.cursor(row_factory=scalar_row).execute(query, values or None).fetchone()
