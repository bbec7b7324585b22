"""What is worth knowing of columns before it is a wrong number.

Columns that views take otherwise than Postgres does, and columns that Postgres does not send.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import psycopg

from cdc.connect.source import catalog
from cdc.connect.source.relation import Shape
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.tables.problems import describe_children
from cdc.run.tables.schema_check import read_followed_tables
from cdc.run.tables.selection import find_selected
from cdc.run.tables.view_check import find_histories
from cdc.views.text_columns.notices import find_notices


@dataclass(frozen=True, slots=True)
class AskedTables:
    """The tables as they are followed, and what is worth knowing of them."""

    tables: Sequence[Table]
    notices: Sequence[PreconditionError]


def ask_tables(pipeline: Pipeline) -> AskedTables | None:
    """The tables of the source, or those of the lake if the source does not answer; None if neither is there to ask."""
    try:
        with pipeline.open_source() as connection:
            names = find_selected(connection, pipeline)
            examined = catalog.examine(connection, names, pipeline.settings.source.choices)
            children = describe_children(pipeline, connection, [table.name for table in examined.tables])
            notices = [*describe_unsent_columns(examined.shapes), *children]
            return AskedTables(examined.tables, [*notices, *describe_text_columns(pipeline, examined.tables)])
    except (CdcError, psycopg.Error):
        tables = _read_lake(pipeline)
        return AskedTables(tables, describe_text_columns(pipeline, tables)) if tables else None


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
