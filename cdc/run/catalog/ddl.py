"""The statements by which a catalog that cdc does not ask itself is told of the lake's tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from sqlglot import exp

from cdc.run.catalog.entry import CatalogEntry

_LITERAL: Final = exp.Literal.string


def _of_unity(entry: CatalogEntry, name: str) -> str:
    comment = f" COMMENT {_LITERAL(entry.comment).sql('databricks')}" if entry.comment else ""
    location = _LITERAL(entry.location).sql("databricks")
    return f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION {location}{comment};"


def _of_athena(entry: CatalogEntry, name: str) -> str:
    location = _LITERAL(f"{entry.location}/").sql("athena")
    return f"CREATE EXTERNAL TABLE {name} LOCATION {location} TBLPROPERTIES ('table_type' = 'DELTA');"


_TABLES: Final[Mapping[str, Callable[[CatalogEntry, str], str]]] = {"unity": _of_unity, "athena": _of_athena}
_DIALECTS: Final = {"unity": "databricks", "athena": "hive"}
KINDS: Final = tuple(_TABLES)


def list_statements(entries: Iterable[CatalogEntry], kind: str) -> Iterator[str]:
    """The statements that register these tables, each database before its tables."""
    made, dialect = set[str](), _DIALECTS[kind]
    for entry in entries:
        database, table = (exp.to_identifier(part, quoted=True).sql(dialect) for part in entry.place)
        if database not in made:
            made.add(database)
            yield f"CREATE SCHEMA IF NOT EXISTS {database};"
        yield _TABLES[kind](entry, f"{database}.{table}")
