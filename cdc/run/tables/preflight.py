"""Which of the named tables can be followed, and every reason against the others, before anything is made."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from psycopg import Connection

from cdc.config.init import table_lines
from cdc.config.settings import PipelineSettings
from cdc.core.errors import PreconditionError
from cdc.core.selection import BUT, Selection
from cdc.core.table import Table, TableName
from cdc.log.names import change_topic, is_plain, latest_topic, sharing
from cdc.run.pipeline import delta_follower
from connect.capture import connector
from connect.source import catalog
from connect.source import preflight as readiness
from connect.source.catalog import Examined, TablesRefusedError
from connect.source.column_types import is_sent_whole
from sinks import registry

_PLUGIN = "`cdc plugin FOLDER` writes its jar: put it beside Debezium's, and start Connect again"
_GONE = "no table {} in the source"
Refusals = Mapping[TableName, PreconditionError]


def accept_tables(
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
    # those that are needed first: of two that cannot both be followed, it is the other one that is refused
    tables, refusals = check_tables(connection, settings, sorted(names, key=lambda name: name in needless), plugins)
    fit = [table for table in tables if table.name not in refusals]
    needed = {name: found for name, found in refusals.items() if name not in needless}
    if needed or not fit:
        offer = _suggest_tables(settings, names, needed, [table for table in tables if table.name in needed])
        raise TablesRefusedError(chain.from_iterable((needed or refusals).values()), offer)
    return fit, refusals


def examine_tables(
    connection: Connection, settings: PipelineSettings, names: Sequence[TableName], beside: Sequence[TableName] = ()
) -> Examined:
    """These tables as the source has them now, and why some cannot be followed, as far as source and settings say.

    `beside`: those that are captured already, which are not looked at for themselves.
    """
    every = catalog.examine(connection, [*names, *beside], settings.source.choices)
    tables = [table for table in every.tables if table.name in names]
    there = {name: every.shapes[name] for name in names if name in every.shapes}
    own = {name: every.refusals[name] for name in names if name in every.refusals}
    # by a pattern, that is: one that is named has to be taken from there
    gone = {name: _GONE.format(name) for name in names if name not in there and name not in settings.selection.names}
    remedy = "stop `cdc follow`; `cdc bootstrap` leaves it out"
    own |= {name: [PreconditionError(told, remedy)] for name, told in gone.items()}
    copied = delta_follower(settings).all_tables()
    further = [
        readiness.unreadable(connection, settings.source, there),
        *(_find_unsupported(settings, name, tables, copied) for name in settings.followers),
    ]
    return Examined(tables, _collect_refusals(names, own, further), there)


def _collect_refusals(
    names: Sequence[TableName], own: Mapping[TableName, Sequence[PreconditionError]], further: Sequence[Refusals]
) -> dict[TableName, Sequence[PreconditionError]]:
    each = {name: [*own.get(name, ()), *(found[name] for found in further if name in found)] for name in names}
    return {name: found for name, found in each.items() if found}


def merge_refusals(refusals: Sequence[PreconditionError]) -> PreconditionError:
    """All that keeps one table from being followed, in one line."""
    what = dict.fromkeys(each.what for each in refusals)
    remedies = dict.fromkeys(each.remedy for each in refusals if each.remedy)
    return PreconditionError("; ".join(what), "; ".join(remedies))


def check_tables(
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
    found = examine_tables(connection, settings, names, beside)
    fit = {table.name for table in found.tables}
    keys = {name: key for name, key in settings.source.named_keys.items() if name in fit}
    further: list[Refusals] = [
        catalog.shared_keys(connection, keys),
        sharing(settings.log.prefix, [*beside, *found.shapes], change_topic, latest_topic),
        {} if connector.POSTGRES_TEXT in plugins else _find_unsendable(found.tables),
        {} if connector.has_own_topics(plugins) else _find_topicless(found.shapes),
    ]
    return list(found.tables), _collect_refusals(names, found.refusals, further)


def _find_unsendable(tables: Iterable[Table]) -> Refusals:
    """The tables with values that Debezium alone would not send whole."""
    lacking = {table.name: [c.name for c in table.columns if not is_sent_whole(c)] for table in tables}
    return {
        name: PreconditionError(
            f"{name}: Kafka Connect lacks {connector.POSTGRES_TEXT}, without which Debezium cannot send column"
            f" {', '.join(columns)} whole",
            _PLUGIN,
        )
        for name, columns in lacking.items()
        if columns
    }


def _find_topicless(names: Iterable[TableName]) -> Refusals:
    """The tables whose topics Debezium alone would give a name that another may have, too."""
    lacking = f"Kafka Connect lacks {connector.OWN_TOPICS}, which makes a topic's name of it that no other table has"
    return {name: PreconditionError(f"{name}: {lacking}", _PLUGIN) for name in names if not is_plain(name)}


def _find_unsupported(
    settings: PipelineSettings, follower: str, tables: Iterable[Table], copied: Iterable[Table]
) -> Refusals:
    """The tables that one follower should hold and cannot. One that the lake has `copied` is not refused for that: it
    stops in that follower alone."""
    known = {was.name for was in copied}
    own = [table for table in tables if settings.holds_table(follower, table) and table.name not in known]
    found = {table.name: registry.refusal(settings.followers[follower], table) for table in own}
    return {name: refusal for name, refusal in found.items() if refusal}


def describe_skipped(settings: PipelineSettings, tables: Iterable[Table]) -> Iterator[PreconditionError]:
    """What to tell of tables that some followers cannot hold, and that are followed without those: only a pattern
    names them."""
    for table in tables:
        for follower in settings.followers:
            if settings.holds(follower, table.name) and not settings.holds_table(follower, table):
                found = registry.refusal(settings.followers[follower], table)
                assert found is not None
                yield PreconditionError(f"not in {follower}: {found.what}", found.remedy)


def _suggest_tables(
    settings: PipelineSettings,
    names: Sequence[TableName],
    refused: Mapping[TableName, Sequence[PreconditionError]],
    there: Iterable[Table],
) -> str:
    """The blocks of the configuration that would be accepted; nothing where no table would.

    `there`: those of the refused tables that Postgres could send. One that some follower cannot hold, and against which
    nothing else is said, is left out of that follower only.
    """
    against = {table.name: _followers_against(settings, table) for table in there}
    kept = {
        name: [follower for follower, _ in found]
        for name, found in against.items()
        if {*map(str, refused[name])} <= {str(each) for _, each in found}
    }
    out = [name for name in refused if name not in kept]
    fit = [str(name) for name in names if name not in out]
    if settings.selection.has_patterns:
        fit = [entry for entry in settings.source.tables if TableName.parse(entry) not in out]
        fit += [f"{BUT}{name}" for name in out if name in Selection.of(fit)]
    if not fit:
        return ""
    free = {follower: [name for name in kept if follower in kept[name]] for follower in settings.followers}
    return f"these would be accepted:\nsource:\n  tables:\n{table_lines(fit)}{_leave_out_lines(settings, free)}"


def _followers_against(settings: PipelineSettings, table: Table) -> Sequence[tuple[str, PreconditionError]]:
    found = ((name, registry.refusal(settings.followers[name], table)) for name in settings.followers)
    return [(name, each) for name, each in found if each and settings.holds(name, table.name)]


def _leave_out_lines(settings: PipelineSettings, free: Mapping[str, Sequence[TableName]]) -> str:
    """The blocks of the followers that are to be kept free of some tables, beside those that they leave out already."""
    blocks = "".join(
        f"\n  {follower}:\n    leave_out:\n{table_lines([*settings.left_out(follower), *map(str, tables)], indent=6)}"
        for follower, tables in free.items()
        if tables
    )
    return f"\nfollowers:{blocks}" if blocks else ""
