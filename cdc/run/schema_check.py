"""Are the tables of the source still those that the lake follows?"""

from collections.abc import Collection, Sequence

from cdc.config.settings import PipelineSettings
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.core.table import Column, Table, TableName
from cdc.run.pipeline import delta_follower
from connect import catalog, publication, source


def followed(settings: PipelineSettings) -> list[Table]:
    """The tables that the lake has, of those that are named."""
    return [table for table in delta_follower(settings).tables() if table.name in settings.tables]


def check_schema(settings: PipelineSettings, tables: Sequence[Table]) -> None:
    """Raise PreconditionError when one of these tables has other columns, or another key, in the source now.

    Messages show columns that came and went, but not that a type changed: only the catalog does.
    """
    if tables:
        with source.connected(settings.source) as connection:
            sent = publication.published(connection, settings.source.publication) or set()
            for was, table in zip(tables, catalog.describe(connection, [t.name for t in tables]), strict=True):
                check_same(was, table)
                _check_sent(was.name, sent)


def _check_sent(name: TableName, sent: Collection[TableName]) -> None:
    """A dropped table leaves its publications, and one that is made again under its name is in none of them."""
    if name not in sent:
        raise HistoryLostError(
            f"{name} was dropped and made again, or taken out of the publication: its changes since are not in the log",
            "bootstrap under another pipeline.name",
        )


def check_same(followed: Table, now: Table) -> None:
    """Raise PreconditionError, naming what differs, unless both are the same table."""
    if followed != now:
        raise PreconditionError(
            f"{now.name} has changed since it was copied: {', '.join(_differences(followed, now))}",
            "change it back, or bootstrap under another pipeline.name: changes of a schema are not followed yet",
        )


def _differences(followed: Table, now: Table) -> Sequence[str]:
    was, has = ({column.name: column for column in table.columns} for table in (followed, now))
    return [
        *(f"column {name} came" for name in has if name not in was),
        *(f"column {name} went" for name in was if name not in has),
        *(
            f"column {name} was {_told(was[name])} and is {_told(has[name])}"
            for name in has
            if name in was and was[name] != has[name]
        ),
        *(
            [f"its key was ({', '.join(followed.key)}) and is ({', '.join(now.key)})"]
            if followed.key != now.key
            else []
        ),
    ] or ["its columns stand in another order"]


def _told(column: Column) -> str:
    return f"{column.kind}({column.precision}, {column.scale})" if column.precision else str(column.kind)
