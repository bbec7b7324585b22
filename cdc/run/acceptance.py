"""Which of the named tables can be followed, and every reason against the others, before anything is made."""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain

from psycopg import Connection

from cdc.config.init import table_lines
from cdc.config.settings import PipelineSettings
from cdc.core.errors import PreconditionError
from cdc.core.selection import BUT
from cdc.core.table import Table, TableName
from cdc.log.names import change_topic, is_plain, latest_topic, sharing
from connect import catalog, connector, readiness
from connect.catalog import Examined, TablesRefusedError
from connect.types import is_sent_whole
from sinks import registry

_PLUGIN = "`cdc plugin FOLDER` writes its jar: put it beside Debezium's, and start Connect again"
Refusals = Mapping[TableName, PreconditionError]


def accepted(
    connection: Connection,
    settings: PipelineSettings,
    names: Sequence[TableName],
    plugins: Set[str],
    needless: Collection[TableName] = (),
) -> tuple[list[Table], Mapping[TableName, Sequence[PreconditionError]]]:
    """Tables as the source has them, and why those cannot be followed that are `needless`, where some are.

    `plugins`: the classes that Kafka Connect has, ours among them or not. Raises TablesRefusedError with every reason
    of every other table that cannot be followed; it offers the `source.tables` that would be accepted.
    """
    tables, refusals = judged(connection, settings, names, plugins)
    if refusals.keys() - set(needless):
        raise TablesRefusedError(chain.from_iterable(refusals.values()), _offer(settings, names, refusals))
    return [table for table in tables if table.name not in refusals], refusals


def examined(connection: Connection, settings: PipelineSettings, names: Sequence[TableName]) -> Examined:
    """These tables as the source has them now, and why others cannot be followed."""
    found = catalog.examine(connection, names, settings.source.named_keys)
    gone = {
        name: [PreconditionError(f"no table {name} in the source", "stop `cdc follow`; `cdc bootstrap` leaves it out")]
        for name in names
        # by a pattern, that is: one that is named has to be taken from there
        if name not in found.shapes and name not in settings.selection.names
    }
    return replace(found, refusals={**found.refusals, **gone})


def as_one(refusals: Sequence[PreconditionError]) -> PreconditionError:
    """All that keeps one table from being followed, in one line."""
    what = dict.fromkeys(each.what for each in refusals)
    remedies = dict.fromkeys(each.remedy for each in refusals if each.remedy)
    return PreconditionError("; ".join(what), "; ".join(remedies))


def judged(
    connection: Connection,
    settings: PipelineSettings,
    names: Sequence[TableName],
    plugins: Set[str],
    beside: Sequence[TableName] = (),
) -> tuple[list[Table], Mapping[TableName, Sequence[PreconditionError]]]:
    """Those of the tables that are there and fit to be sent, and what each of those is refused for that cannot be
    followed.

    `beside`: those that are captured already, which are not judged, and which the others must not collide with.
    """
    keys = {name: key for name, key in settings.source.named_keys.items() if name in names}
    found = examined(connection, settings, [*names, *beside])
    tables = [table for table in found.tables if table.name in names]
    there = [name for name in names if name in found.shapes]
    fit = {table.name for table in tables}
    further: list[Refusals] = [
        catalog.shared_keys(connection, {name: key for name, key in keys.items() if name in fit}),
        readiness.unreadable(connection, settings.source, {name: found.shapes[name] for name in there}),
        sharing(settings.log.prefix, [*beside, *there], change_topic, latest_topic),
        {} if connector.EXACT_TEXT in plugins else _unsendable(tables),
        {} if connector.has_own_topics(plugins) else _without_topic(there),
        *(_unfit(settings, name, tables) for name in settings.followers),
    ]
    refusals = {
        name: [*found.refusals.get(name, ()), *(each[name] for each in further if name in each)] for name in names
    }
    return tables, {name: each for name, each in refusals.items() if each}


def _unsendable(tables: Iterable[Table]) -> Refusals:
    """The tables with values that Debezium alone would not send whole."""
    lacking = {table.name: [c.name for c in table.columns if not is_sent_whole(c)] for table in tables}
    return {
        name: PreconditionError(
            f"{name}: Kafka Connect lacks {connector.EXACT_TEXT}, without which Debezium cannot send column"
            f" {', '.join(columns)} whole",
            _PLUGIN,
        )
        for name, columns in lacking.items()
        if columns
    }


def _without_topic(names: Iterable[TableName]) -> Refusals:
    """The tables whose topics Debezium alone would give a name that another may have, too."""
    lacking = f"Kafka Connect lacks {connector.OWN_TOPICS}, which makes a topic's name of it that no other table has"
    return {name: PreconditionError(f"{name}: {lacking}", _PLUGIN) for name in names if not is_plain(name)}


def unfit(settings: PipelineSettings, table: Table) -> PreconditionError | None:
    """Why some follower cannot hold the table, which is one of its own."""
    found = (_unfit(settings, name, [table]).get(table.name) for name in settings.followers)
    return next(filter(None, found), None)


def _unfit(settings: PipelineSettings, follower: str, tables: Iterable[Table]) -> Refusals:
    """The tables that one follower cannot hold."""
    refusals: dict[TableName, PreconditionError] = {}
    for table in (table for table in tables if settings.holds(follower, table.name)):
        try:
            registry.check_table(settings.followers[follower], table)
        except PreconditionError as refusal:
            refusals[table.name] = refusal
    return refusals


def _offer(settings: PipelineSettings, names: Sequence[TableName], refused: Collection[TableName]) -> str:
    """The block of the configuration that would be accepted; nothing where no table would."""
    fit = [str(name) for name in names if name not in refused]
    if settings.selection.has_patterns:
        fit = [*settings.source.tables, *(f"{BUT}{name}" for name in refused)]
    return f"these would be accepted:\nsource:\n  tables:\n{table_lines(fit)}" if fit else ""
