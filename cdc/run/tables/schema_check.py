"""Compares the source's tables with those that the lake follows."""

from collections.abc import Collection, Sequence

from cdc.connect.source import catalog, publication, schema_history
from cdc.connect.source.column_types import find_choice
from cdc.connect.table_choices import Choices, ChosenType, ColumnChoices
from cdc.core.errors import CdcError, HistoryLostError, PreconditionError
from cdc.core.mask import Mask, MaskKind, Masks
from cdc.core.schema_change import describe_differences, has_more_columns
from cdc.core.table import Column, Table, TableName
from cdc.core.table_state import ACTIVE
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.metadata.stopped_tables import recopy_remedy


def read_followed_tables(pipeline: Pipeline) -> list[Table]:
    """The tables that the lake follows and the configuration names, as the lake has them."""
    active = pipeline.lake_follower.tables.select(*ACTIVE).items()
    return [table.table for name, table in active if name in pipeline.settings.selection]


def find_different(pipeline: Pipeline, tables: Sequence[Table]) -> dict[TableName, PreconditionError]:
    """Of these tables of the source, those that the lake has with another schema; with the difference."""
    now = {table.name: table for table in tables}
    differences_of = {
        was.name: describe_difference(was, now[was.name]) for was in read_followed_tables(pipeline) if was.name in now
    }
    return {name: error for name, error in differences_of.items() if error}


def find_changed_choices(pipeline: Pipeline) -> dict[TableName, str]:
    """The copied tables whose `source.column_types`, `mask` or `where` have changed since, and how.

    Their rows would have mixed types, or values and rows that are not to be there.
    """
    choices = pipeline.settings.source.choices
    changes: dict[TableName, str] = {}
    for name, followed in pipeline.lake_follower.tables.all().items():
        table = followed.table
        found = [*_find_changed_types(table, choices), *_find_changed_masks(table, choices.masks_of(name))]
        if table.where != choices.wheres.get(name, ""):
            found.append(f"source.where has changed, which was {table.where or 'nothing'}")
        if found and name in pipeline.settings.selection:
            changes[name] = "; ".join(found)
    return changes


def check_secret(pipeline: Pipeline, again: Collection[TableName] = ()) -> None:
    """Raise PreconditionError when tables were hashed with another secret, but for those to be copied `again`.

    A secret that is another by mistake would make other rows of all of them.
    """
    choices = pipeline.settings.source.choices
    for name, followed in pipeline.lake_follower.tables.all().items():
        masks = choices.masks_of(name)
        for column in followed.table.columns:
            was, now = Mask.of_column(column), masks.get(column.name)
            both = was and now and was.kind is now.kind is MaskKind.HASH and was.fingerprint != now.fingerprint
            if both and name not in again and name in pipeline.settings.selection:
                raise PreconditionError(
                    f"{name}: column {column.name} was hashed with another source.mask_secret",
                    f"name that one; or `cdc bootstrap --again {name}` copies and hashes it anew",
                )


def list_parted(pipeline: Pipeline, names: Collection[TableName]) -> list[TableName]:
    """Those of these tables of which the publication is to send parts, by the settings or since they were copied."""
    choices, followed = pipeline.settings.source.choices, pipeline.lake_follower.tables.all()
    were = {name for name, table in followed.items() if table.table.where or table.table.dropped}
    return [name for name in names if name in were or name in choices.wheres or choices.list_dropped(name)]


def _find_changed_types(table: Table, choices: Choices) -> list[str]:
    of = choices.types_of(table.name)
    # a mask decides a column's type
    wanted = [(column, _find_choice(table, column, of)) for column in table.columns if not column.mask]
    columns = [
        f"{column.name} as {choice or 'it is'}" for column, choice in wanted if column.chosen != str(choice or "")
    ]
    return [f"source.column_types has changed: {', '.join(columns)}"] if columns else []


def _find_changed_masks(table: Table, masks: Masks) -> list[str]:
    was = {column.name: column.mask for column in table.columns if column.mask}
    was |= dict.fromkeys((column.name for column in table.dropped), str(MaskKind.DROP))
    now = {column: str(mask) for column, mask in masks.items()}
    changed = [
        f"{column} as {masks[column].kind if column in masks else 'it is'}"
        for column in {**was, **now}
        if was.get(column) != now.get(column)
    ]
    if not changed:
        return []
    stays = "; what was written before stays in the log, in older versions and in histories (`cdc erase` erases a row)"
    return [f"source.mask has changed: {', '.join(changed)}{stays if now.keys() - was else ''}"]


def _find_choice(table: Table, column: Column, choices: ColumnChoices) -> ChosenType | None:
    """The choice for a column that the lake has. A chosen type hides the column's own, and any other counts as fit."""
    if column.chosen:
        return choices.find(column.name) or choices.numerics
    return find_choice(column, choices, is_key=column.name in table.key)


def find_unlogged_changes(pipeline: Pipeline) -> dict[TableName, CdcError]:
    """The changed tables (`find_changed_tables`) of which the schema history in the log says nothing.

    Those are among them of which the publication leaves changes out.

    Empty if the source has the event triggers that write the history. First writes the changes of partitions into the
    history, which no event trigger reports.
    """
    with pipeline.open_source() as connection:
        schema_history.note_partitions(connection, pipeline.settings.source)
        if schema_history.has_triggers(connection, pipeline.settings.source):
            return {}
        logged = schema_history.find_announced(connection, pipeline.settings.source)
        cut = publication.list_cut(connection, pipeline.settings.source)
    # a change that is logged as well hides no lost ones
    changed = {**find_changed_tables(pipeline), **_describe_cut(pipeline, cut)}
    # a migration may have logged its changes; that a table has left the publication is never logged
    return {name: error for name, error in changed.items() if name not in logged or isinstance(error, HistoryLostError)}


def _describe_cut(pipeline: Pipeline, cut: Collection[TableName]) -> dict[TableName, CdcError]:
    """The followed tables of which the publication leaves changes out: their copies wait until it is whole again."""
    what = f"publication {pipeline.settings.source.publication} leaves changes of it out, which are not in the log"
    followed = [table.name for table in read_followed_tables(pipeline.reopened()) if table.name in cut] if cut else []
    return {name: HistoryLostError(f"{name}: {what}", recopy_remedy(name)) for name in followed}


def find_changed_tables(pipeline: Pipeline, *, also_widened: bool = True) -> dict[TableName, CdcError]:
    """The followed tables with other columns or another key in the source now, or outside the publication.

    `also_widened`: including those that only have further columns. Messages show added and dropped columns, but not
    a changed type: only the catalog has that.
    """
    # read anew: the stream may have added columns since the last look
    tables = read_followed_tables(pipeline.reopened())
    if not tables:
        return {}
    with pipeline.open_source() as connection:
        sent = publication.read_publication(connection, pipeline.settings.source.publication) or set()
        examined = catalog.examine(connection, [table.name for table in tables], pipeline.settings.source.choices)
    now = {table.name: table for table in examined.tables}
    changes = {
        was.name: _check_published(was.name, sent) or describe_difference(was, now[was.name])
        if was.name in now
        else examined.refusals[was.name][0]
        for was in tables
    }
    # the log brings further columns, too, in their place among the changes
    wider = {was.name for was in tables if was.name in now and has_more_columns(was, now[was.name])}
    return {name: error for name, error in changes.items() if error and (also_widened or name not in wider)}


def _check_published(name: TableName, sent: Collection[TableName]) -> CdcError | None:
    """A dropped table leaves its publications, and a new one of its name is in none of them."""
    if name in sent:
        return None
    return HistoryLostError(
        f"{name} was dropped and made again, or taken out of the publication: its changes since are not in the log",
        recopy_remedy(name),
    )


def describe_difference(before: Table, now: Table) -> PreconditionError | None:
    """The error for a changed table; None when nothing differs."""
    columns = describe_differences(before, now)
    if not columns:
        return None
    return PreconditionError(
        f"{now.name} has changed since it was copied: {', '.join(columns)}", recopy_remedy(now.name)
    )
