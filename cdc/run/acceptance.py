"""Which of the named tables can be followed, and every reason against the others, before anything is made."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from psycopg import Connection

from cdc.config.init import table_lines
from cdc.config.settings import PipelineSettings
from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.log.names import change_topic, sharing
from connect import catalog, readiness
from connect.catalog import TablesRefusedError
from sinks import registry

Refusals = Mapping[TableName, PreconditionError]


def accepted(connection: Connection, settings: PipelineSettings) -> list[Table]:
    """The tables as the source has them.

    Raises TablesRefusedError with every reason of every table that cannot be followed; it offers the `source.tables`
    that would be accepted.
    """
    examined = catalog.examine(connection, settings.tables)
    there = [name for name in settings.tables if name not in examined.missing]
    further: list[Refusals] = [
        readiness.unreadable(connection, settings.source, there),
        sharing(change_topic, settings.log.prefix, there),
        *(_unfit(settings, name, examined.tables) for name in settings.followers),
    ]
    refusals = {
        name: [*examined.refusals.get(name, ()), *(found[name] for found in further if name in found)]
        for name in settings.tables
    }
    if any(refusals.values()):
        raise TablesRefusedError(chain.from_iterable(refusals.values()), _offer(refusals))
    return list(examined.tables)


def _unfit(settings: PipelineSettings, follower: str, tables: Iterable[Table]) -> Refusals:
    """The tables that one follower cannot hold."""
    refusals: dict[TableName, PreconditionError] = {}
    for table in tables:
        try:
            registry.check_table(settings.followers[follower], table)
        except PreconditionError as refusal:
            refusals[table.name] = refusal
    return refusals


def _offer(refusals: Mapping[TableName, Sequence[PreconditionError]]) -> str:
    """The block of the configuration that would be accepted; nothing where no table would."""
    fit = [name for name, found in refusals.items() if not found]
    return f"these would be accepted:\nsource:\n  tables:\n{table_lines(fit)}" if fit else ""
