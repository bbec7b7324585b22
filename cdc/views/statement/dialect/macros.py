"""Spark's functions in DuckDB, as macros (`spark.sql`)."""

from importlib.resources import files
from typing import Final

import duckdb

_SQL: Final = files(__package__).joinpath("spark.sql").read_text(encoding="utf-8")


def create_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions known that a translated statement calls."""
    connection.execute(_SQL)
