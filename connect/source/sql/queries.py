"""Reads the statements on a source from the files of this room."""

from functools import cache
from importlib.resources import files
from itertools import dropwhile

from psycopg import sql


@cache
def read_sql(name: str) -> sql.SQL:
    """Read `connect/source/sql/<name>.sql`, without the comment at its head."""
    lines = (files("cdc.connect.source.sql") / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return sql.SQL("\n".join(dropwhile(lambda line: line.startswith("--"), lines)))
