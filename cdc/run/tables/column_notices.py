"""What is worth knowing of columns before it is a wrong number.

Columns that views take otherwise than Postgres does, and columns that Postgres does not send.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import Connection

from cdc.connect.source.relation import Shape
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.tables.preflight import examine_tables
from cdc.run.tables.problems import describe_children
from cdc.run.tables.schema_check import read_followed_tables
from cdc.run.tables.selection import find_selected
from cdc.run.tables.source_check import open_briefly
from cdc.run.tables.view_check import find_histories
from cdc.views.text_columns.notices import find_notices


@dataclass(frozen=True, slots=True)
class AskedTables:
    """The tables as they are followed, and what is worth knowing of them.

    `refusals`: of tables that cannot be followed. `unasked`: why these are the lake's, if it has any.
    """

    tables: Sequence[Table]
    notices: Sequence[PreconditionError]
    refusals: Mapping[TableName, Sequence[PreconditionError]] = field(default_factory=dict)
    unasked: CdcError | None = None


def ask_tables(pipeline: Pipeline) -> AskedTables:
    """The tables of the source, or those of the lake if the source does not answer within seconds."""
    try:
        with open_briefly(pipeline.settings) as connection:
            return _ask(pipeline, connection)
    except CdcError as error:
        tables = _read_lake(pipeline)
        return AskedTables(tables, describe_text_columns(pipeline, tables), unasked=error)


def _ask(pipeline: Pipeline, connection: Connection) -> AskedTables:
    examined = examine_tables(connection, pipeline, find_selected(connection, pipeline))
    children = describe_children(pipeline, connection, [table.name for table in examined.tables])
    texts = describe_text_columns(pipeline, examined.tables)
    notices = [*describe_unsent_columns(examined.shapes), *children, *texts]
    return AskedTables(examined.tables, notices, examined.refusals)


def _read_lake(pipeline: Pipeline) -> Sequence[Table]:
    try:
        return read_followed_tables(pipeline)
    except CdcError:
        return []


def describe_text_columns(
    pipeline: Pipeline, tables: Iterable[Table], views: Collection[TableName] | None = None
) -> list[PreconditionError]:
    """One notice for each view and column that is text in the lake, and that the view takes for more than a text.

    `views`: of these only, if they are named.
    """
    followed = {table.name: table for table in tables}
    notices = find_notices(
        pipeline.settings.view_definitions, {**followed, **find_histories(pipeline, followed.values())}
    )
    return [
        PreconditionError(f"view {notice.view}: {notice.cause}", notice.remedy)
        for notice in notices
        if views is None or notice.view in views
    ]


def describe_unsent_columns(shapes: Mapping[TableName, Shape]) -> list[PreconditionError]:
    """One notice for each table with generated columns, which Postgres does not send, and no follower has."""
    unsent = {name: [column.name for column in shape.columns if column.is_generated] for name, shape in shapes.items()}
    return [
        PreconditionError(
            f"{name}: followers do not have {', '.join(columns)}: Postgres sends no generated columns",
            "compute it in a view, or let a trigger fill a plain column",
        )
        for name, columns in unsent.items()
        if columns
    ]
