"""Are the tables of the source still those that the lake follows?"""

from collections.abc import Collection, Sequence

from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, HistoryLostError, PreconditionError
from cdc.core.table import Column, Table, TableName
from cdc.run.pipeline import delta_follower
from connect import catalog, publication, source
from sinks.lake.follower import again


def followed(settings: PipelineSettings) -> list[Table]:
    """The tables that the lake has, of those that are named."""
    return [table for table in delta_follower(settings).tables() if table.name in settings.tables]


def check_schema(settings: PipelineSettings, tables: Sequence[Table]) -> None:
    """Raise what `changed` finds first."""
    for found in changed(settings, tables).values():
        raise found


def changed(settings: PipelineSettings, tables: Sequence[Table]) -> dict[TableName, CdcError]:
    """Which of these tables have other columns, or another key, in the source now, or are no longer sent.

    Messages show columns that came and went, but not that a type changed: only the catalog does.
    """
    if not tables:
        return {}
    with source.connected(settings.source) as connection:
        sent = publication.published(connection, settings.source.publication) or set()
        examined = catalog.examine(connection, [table.name for table in tables])
    now = {table.name: table for table in examined.tables}
    found = {
        was.name: _unsent(was.name, sent) or difference(was, now[was.name])
        if was.name in now
        else examined.refusals[was.name][0]
        for was in tables
    }
    return {name: error for name, error in found.items() if error}


def _unsent(name: TableName, sent: Collection[TableName]) -> CdcError | None:
    """A dropped table leaves its publications, and one that is made again under its name is in none of them."""
    if name in sent:
        return None
    return HistoryLostError(
        f"{name} was dropped and made again, or taken out of the publication: its changes since are not in the log",
        again(name),
    )


def difference(followed: Table, now: Table) -> PreconditionError | None:
    """What differs, where these are not the same table."""
    differences = _differences(followed, now)
    if not differences:
        return None
    return PreconditionError(f"{now.name} has changed since it was copied: {', '.join(differences)}", again(now.name))


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
            f"column {name} went and came again"
            for name in has
            if name in was and was[name] == has[name] and 0 < was[name].number != has[name].number
        ),
        *(
            [f"its key was ({', '.join(followed.key)}) and is ({', '.join(now.key)})"]
            if followed.key != now.key
            else []
        ),
    ] or (["its columns stand in another order"] if followed != now else [])


def _told(column: Column) -> str:
    return f"{column.kind}({column.precision}, {column.scale})" if column.precision else str(column.kind)
