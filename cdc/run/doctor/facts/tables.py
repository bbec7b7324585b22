"""What the source says of the tables that are to be followed, and what the toolkit makes of it."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from psycopg import Connection

from cdc.connect.source import rights
from cdc.connect.source.relation import Shape, read_shapes
from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.postgres.locks import find_holders
from cdc.run.doctor.facts.access import Access
from cdc.run.pipeline import Pipeline
from cdc.run.tables.column_notices import describe_text_columns, describe_unsent_columns
from cdc.run.tables.preflight import check_tables, describe_skipped
from cdc.run.tables.problems import describe_children
from cdc.run.tables.selection import find_selected

# by pages, as the planner counts them: the size of a file is not told while somebody has its table locked
_SIZES: Final = """
WITH RECURSIVE tree(top, oid) AS (
    SELECT c.oid, c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
    UNION ALL
    SELECT tree.top, part.oid FROM tree JOIN pg_inherits link ON link.inhparent = tree.oid
      JOIN pg_class part ON part.oid = link.inhrelid AND part.relispartition)
SELECT n.nspname, c.relname, sum(part.relpages + COALESCE(toast.relpages, 0))::bigint * 8192,
       sum(greatest(part.reltuples, 0))::bigint, bool_or(part.relkind = 'r' AND part.reltuples < 0),
       (SELECT COALESCE(sum(avg_width), 0)::bigint FROM pg_stats s
         WHERE s.schemaname = n.nspname AND s.tablename = c.relname),
       pg_get_userbyid(c.relowner), pg_has_role(c.relowner, 'USAGE')
  FROM tree JOIN pg_class c ON c.oid = tree.top JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_class part ON part.oid = tree.oid LEFT JOIN pg_class toast ON toast.oid = part.reltoastrelid
 GROUP BY n.nspname, c.relname, c.relowner"""


@dataclass(frozen=True, slots=True)
class TableSize:
    """Sizes and statistics of a table, as the planner has them; `width`: the mean bytes of a row."""

    bytes: int
    rows: int
    is_guessed: bool
    width: int
    owner: str
    is_owned: bool


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The tables to follow. `refusals`: every reason against each;

    `unreadable`: those that the role may not read, and why; `grants`: the statements that let it. `notices`: by check.
    """

    names: Sequence[TableName]
    tables: Sequence[Table] = ()
    refusals: Mapping[TableName, Sequence[PreconditionError]] = field(default_factory=dict)
    shapes: Mapping[TableName, Shape] = field(default_factory=dict)
    sizes: Mapping[TableName, TableSize] = field(default_factory=dict)
    unreadable: Mapping[TableName, PreconditionError] = field(default_factory=dict)
    grants: Sequence[str] = ()
    locked: Mapping[TableName, str] = field(default_factory=dict)
    notices: Mapping[str, Sequence[PreconditionError]] = field(default_factory=dict)


def read_tables(pipeline: Pipeline, access: Access, plugins: Set[str]) -> TableFacts:
    """Ask the source; `plugins`: the classes on Kafka Connect's plugin path. Raises CdcError."""
    with access.open() as connection:
        names = find_selected(connection, pipeline)
        # required tables first: of two that collide, the later one is refused
        names = sorted(names, key=lambda name: name not in pipeline.settings.selection.names)
        tables, refusals = check_tables(connection, pipeline, names, plugins, reads_rows=False)
        fit = [table for table in tables if table.name not in refusals]
        shapes = read_shapes(connection, names)
        parts = [part for name, shape in shapes.items() for part in rights.list_parts(name, shape)]
        source = pipeline.settings.source
        return TableFacts(
            names,
            tables,
            refusals,
            shapes,
            dict(_read_sizes(connection, names)),
            rights.find_unreadable(connection, source, shapes),
            rights.find_missing_grants(connection, source, parts),
            dict(_find_locked(connection, names)),
            {
                "unsent_columns": describe_unsent_columns({table.name: shapes[table.name] for table in fit}),
                "children": describe_children(pipeline, connection, [table.name for table in fit]),
                "text_columns": describe_text_columns(pipeline, fit),
                "left_out": [*describe_skipped(pipeline, fit)],
            },
        )


def _read_sizes(connection: Connection, names: Sequence[TableName]) -> Iterator[tuple[TableName, TableSize]]:
    wanted = ([name.schema for name in names], [name.table for name in names])
    for schema, table, *found in connection.execute(_SIZES, wanted):
        yield TableName(schema, table), TableSize(*found)


def _find_locked(connection: Connection, names: Sequence[TableName]) -> Iterator[tuple[TableName, str]]:
    for name in names:
        if holders := find_holders(connection, [name]):
            yield name, ", ".join(holders)
