"""Checks, before anything is made, which tables can be followed; finds every reason against the others."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from psycopg import Connection

from cdc.config.init import table_lines
from cdc.connect.capture import debezium_properties
from cdc.connect.capture.masked_columns import MASKS, PLUGIN_REMEDY, find_renamed
from cdc.connect.source import catalog, rights
from cdc.connect.source.catalog import ExaminedTables, TablesRefusedError
from cdc.connect.source.column_types import is_sent_whole
from cdc.connect.source.published_parts import check_conditions
from cdc.connect.source.relation import Shape, read_shapes
from cdc.core.errors import PreconditionError
from cdc.core.selection import BUT, Selection
from cdc.core.table import Table, TableName
from cdc.log.names import change_topic, find_shared_topics, is_plain, latest_topic
from cdc.run.pipeline import Pipeline
from cdc.sinks import registry
from cdc.sinks.lake.history.epochs import is_history_folder
from cdc.sinks.lake.history.shape import find_obstacle, find_tracked

Refusals = Mapping[TableName, PreconditionError]
"""One reason per refused table."""


def accept_tables(
    pipeline: Pipeline,
    names: Sequence[TableName],
    checked: tuple[Sequence[Table], Mapping[TableName, Sequence[PreconditionError]]],
    optional: Collection[TableName] = (),
) -> tuple[list[Table], Mapping[TableName, Sequence[PreconditionError]]]:
    """The tables that can be followed, and every reason against the refused `optional` ones.

    `checked`: as `check_tables` gives it. Raises TablesRefusedError with every reason against every other table; its
    offer is the `source.tables` that would be accepted.
    """
    tables, refusals = checked
    accepted = [table for table in tables if table.name not in refusals]
    failures = {name: reasons for name, reasons in refusals.items() if name not in optional}
    if failures or not accepted:
        offer = _suggest_tables(pipeline, names, failures, [table for table in tables if table.name in failures])
        raise TablesRefusedError(chain.from_iterable((failures or refusals).values()), offer)
    return accepted, refusals


def examine_tables(
    connection: Connection, pipeline: Pipeline, names: Sequence[TableName], captured: Sequence[TableName] = ()
) -> ExaminedTables:
    """Describe these tables as the source has them now, with the reasons against some, by catalog and settings.

    `captured`: tables that are captured already; they only count as neighbours, for collisions of names.
    """
    examined = catalog.examine(connection, [*names, *captured], pipeline.settings.source.choices)
    tables = [table for table in examined.tables if table.name in names]
    there = {name: examined.shapes[name] for name in names if name in examined.shapes}
    own = {name: examined.refusals[name] for name in names if name in examined.refusals}
    # tables of a pattern only: one that is listed by name has to leave the list
    gone = {
        name: f"no table {name} in the source"
        for name in names
        if name not in there and name not in pipeline.settings.selection.names
    }
    remedy = "stop `cdc follow`; `cdc bootstrap` leaves it out"
    own |= {name: [PreconditionError(what, remedy)] for name, what in gone.items()}
    copied = [table.table for table in pipeline.lake_follower.tables.all().values()]
    further = [
        rights.find_unreadable(connection, pipeline.settings.source, there),
        *(_find_unsupported(pipeline, name, tables, copied) for name in pipeline.settings.followers),
        _find_without_history(pipeline, tables, {table.name for table in copied}),
        find_taken_names(pipeline, names, {table.name for table in copied}),
        _find_unmasked(pipeline, there),
        _find_unnamed(connection, pipeline, [name for name in there if name not in {table.name for table in copied}]),
        check_conditions(connection, pipeline.settings.source, [table.name for table in tables]),
    ]
    return ExaminedTables(tables, _collect_refusals(names, own, further), there)


def _collect_refusals(
    names: Sequence[TableName], own: Mapping[TableName, Sequence[PreconditionError]], further: Sequence[Refusals]
) -> dict[TableName, Sequence[PreconditionError]]:
    every = {name: [*own.get(name, ()), *(more[name] for more in further if name in more)] for name in names}
    return {name: reasons for name, reasons in every.items() if reasons}


def merge_refusals(refusals: Sequence[PreconditionError]) -> PreconditionError:
    """Merge the reasons against one table into one error of one line."""
    what = dict.fromkeys(refusal.what for refusal in refusals)
    remedies = dict.fromkeys(refusal.remedy for refusal in refusals if refusal.remedy)
    return PreconditionError("; ".join(what), "; ".join(remedies))


def check_tables(
    connection: Connection,
    pipeline: Pipeline,
    names: Sequence[TableName],
    plugins: Set[str],
    captured: Sequence[TableName] = (),
    *,
    reads_rows: bool = True,
) -> tuple[list[Table], Mapping[TableName, Sequence[PreconditionError]]]:
    """Describe these tables, and collect every reason against each that cannot be followed.

    `reads_rows`: look for duplicates of chosen keys, too: whole tables are read. `captured`: tables that are captured
    already; they are not checked, but the others must not collide with them.
    """
    examined = examine_tables(connection, pipeline, names, captured)
    further: list[Refusals] = [
        find_duplicates(connection, pipeline, examined.tables) if reads_rows else {},
        # captured ones first: of two that collide, the later one is refused
        catalog.find_confused_keys(connection, [*captured, *examined.shapes], pipeline.settings.source.choices.keys),
        find_shared_topics(pipeline.settings.log.prefix, [*captured, *examined.shapes], change_topic, latest_topic),
        {} if debezium_properties.POSTGRES_TEXT in plugins else _find_unsendable(examined.tables),
        {} if debezium_properties.has_own_topics(plugins) else _find_topicless(examined.shapes),
        {} if MASKS in plugins else _find_unmaskable(examined.tables),
    ]
    return list(examined.tables), _collect_refusals(names, examined.refusals, further)


def find_duplicates(connection: Connection, pipeline: Pipeline, tables: Iterable[Table]) -> Refusals:
    """Refuse tables with duplicates of a key that the settings have chosen; reads those tables."""
    # only of tables that exist
    described = {table.name for table in tables}
    keys = {name: key for name, key in pipeline.settings.source.choices.keys.items() if name in described}
    return catalog.find_duplicate_keys(connection, keys)


def add_refusals(
    refusals: Mapping[TableName, Sequence[PreconditionError]], further: Refusals
) -> Mapping[TableName, Sequence[PreconditionError]]:
    """The refusals with one more reason against some tables."""
    return _collect_refusals([*dict.fromkeys([*refusals, *further])], refusals, [further])


def _find_unsendable(tables: Iterable[Table]) -> Refusals:
    """Refuse tables with columns that Debezium alone would not send whole."""
    lacking = {table.name: [c.name for c in table.columns if not is_sent_whole(c)] for table in tables}
    return {
        name: PreconditionError(
            f"{name}: Kafka Connect lacks {debezium_properties.POSTGRES_TEXT}, without which Debezium cannot send"
            f" column {', '.join(columns)} whole",
            PLUGIN_REMEDY,
        )
        for name, columns in lacking.items()
        if columns
    }


def _find_unmaskable(tables: Iterable[Table]) -> Refusals:
    """Refuse tables with masks, which Debezium alone does not put on."""
    lacking = f"Kafka Connect lacks {MASKS}, which masks its columns"
    return {
        table.name: PreconditionError(f"{table.name}: {lacking}", PLUGIN_REMEDY) for table in tables if table.is_masked
    }


def _find_unnamed(connection: Connection, pipeline: Pipeline, new: Iterable[TableName]) -> Refusals:
    """Refuse new tables that only a pattern names, while one with masks or a filter is gone: one may be the other."""
    choices, named = pipeline.settings.source.choices, {*pipeline.settings.selection.names}
    parted, unnamed = [*{**choices.masks, **choices.wheres}], [name for name in new if name not in named]
    if not (parted and unnamed):
        return {}
    gone = {*parted} - read_shapes(connection, parted).keys()
    what = f"source.mask or source.where names {', '.join(map(str, sorted(gone)))}, which is gone, and may be this one"
    remedy = "give this one its masks and its filter, and take that one out"
    return {name: PreconditionError(f"{name}: {what}", remedy) for name in unnamed} if gone else {}


def _find_unmasked(pipeline: Pipeline, shapes: Mapping[TableName, Shape]) -> Refusals:
    """Refuse tables of which a masked column was renamed since it was copied: its values would leave by that name."""
    followed, choices = pipeline.lake_follower.tables.all(), pipeline.settings.source.choices
    refusals = {}
    for name in shapes.keys() & followed.keys():
        names = {column.number: column.name for column in shapes[name].columns}
        renamed = find_renamed(followed[name].table, names, choices.masks_of(name))
        for was, now in renamed.items():
            what = f"{name}: column {now} was {was}, which is masked, and has no mask"
            refusals[name] = PreconditionError(what, f"name {now} in source.mask, too")
    return refusals


def _find_topicless(names: Iterable[TableName]) -> Refusals:
    """Refuse tables to whose topics Debezium alone would give a name that another table may have, too."""
    plugin = debezium_properties.OWN_TOPICS
    lacking = f"Kafka Connect lacks {plugin}, which makes a topic's name of it that no other table has"
    return {name: PreconditionError(f"{name}: {lacking}", PLUGIN_REMEDY) for name in names if not is_plain(name)}


def describe_missing_plugins(plugins: Set[str]) -> Iterator[PreconditionError]:
    """Say what is weaker without our classes in Kafka Connect, though every table can be followed."""
    losses = {
        debezium_properties.WHOLE_TRANSACTIONS: "a worker that is killed within a transaction may lose changes of it",
        debezium_properties.CONFIRMED_LSN: "a slot that somebody moves is not noticed",
    }
    if lacking := losses.keys() - plugins:
        names, lost = sorted(lacking), [loss for name, loss in losses.items() if name in lacking]
        yield PreconditionError(f"Kafka Connect lacks {', '.join(names)}: {', and '.join(lost)}", PLUGIN_REMEDY)


def _find_unsupported(pipeline: Pipeline, follower: str, tables: Iterable[Table], copied: Iterable[Table]) -> Refusals:
    """Refuse tables that one follower should hold and cannot.

    A table that the lake has `copied` is not refused: it stops in that follower only.
    """
    known = {table.name for table in copied}
    own = [table for table in tables if pipeline.settings.holds_table(follower, table) and table.name not in known]
    refusals = {table.name: registry.find_refusal(pipeline.settings.followers[follower], table) for table in own}
    return {name: refusal for name, refusal in refusals.items() if refusal}


def _find_without_history(pipeline: Pipeline, tables: Iterable[Table], copied: Set[TableName]) -> Refusals:
    """Refuse tables of which no history can be kept, though the settings ask for one.

    A table that the lake has `copied` is not refused: its history stops alone.
    """
    asked = {*pipeline.settings.histories} - copied
    reasons = {table.name: find_obstacle(table) for table in tables if table.name in asked}
    return {
        name: PreconditionError(f"{name}: no history can be kept: {why}", "take it out of `history:` in cdc.yaml")
        for name, why in reasons.items()
        if why
    }


def find_taken_names(pipeline: Pipeline, names: Iterable[TableName], copied: Set[TableName]) -> Refusals:
    """Refuse tables that have the name of a history: of one that the settings name, or that lies in the lake.

    The lake is asked about tables that it has not `copied` only.
    """
    tracked = {name: find_tracked(name, pipeline.settings.histories) for name in names}
    refusals = {name: _describe_taken(name, f"the history of {of}") for name, of in tracked.items() if of}
    lake = pipeline.lake
    for name in tracked.keys() - refusals.keys() - copied:
        if is_history_folder(lake, name):
            refusals[name] = _describe_taken(name, "a history")
    return refusals


def _describe_taken(name: TableName, owner: str) -> PreconditionError:
    return PreconditionError(
        f"{name}: in the lake this is the name of {owner}, which nothing replaces",
        f'add "{BUT}{name}" to source.tables, or rename the table',
    )


def describe_skipped(pipeline: Pipeline, tables: Iterable[Table]) -> Iterator[PreconditionError]:
    """Say which followers skip which tables: those that a pattern names, and that the follower cannot hold."""
    for table in tables:
        for follower in pipeline.settings.followers:
            if pipeline.settings.holds(follower, table.name) and not pipeline.settings.holds_table(follower, table):
                refusal = registry.find_refusal(pipeline.settings.followers[follower], table)
                assert refusal is not None
                yield PreconditionError(f"not in {follower}: {refusal.what}", refusal.remedy)


def _suggest_tables(
    pipeline: Pipeline,
    names: Sequence[TableName],
    refused: Mapping[TableName, Sequence[PreconditionError]],
    there: Iterable[Table],
) -> str:
    """The blocks of the configuration that would be accepted; empty when no table would be.

    `there`: the refused tables that Postgres could send. One that is refused only because some follower cannot hold it
    is left out of that follower only.
    """
    against = {table.name: _followers_against(pipeline, table) for table in there}
    partly = {
        name: [follower for follower, _ in reasons]
        for name, reasons in against.items()
        if {*map(str, refused[name])} <= {str(reason) for _, reason in reasons}
    }
    out = [name for name in refused if name not in partly]
    entries = [str(name) for name in names if name not in out]
    if pipeline.settings.selection.has_patterns:
        entries = [entry for entry in pipeline.settings.source.tables if TableName.parse(entry) not in out]
        # a pattern would name these again
        entries += [f"{BUT}{name}" for name in out if name in Selection.of(entries)]
    if not entries:
        return ""
    free = {follower: [name for name in partly if follower in partly[name]] for follower in pipeline.settings.followers}
    return f"these would be accepted:\nsource:\n  tables:\n{table_lines(entries)}{_leave_out_lines(pipeline, free)}"


def _followers_against(pipeline: Pipeline, table: Table) -> Sequence[tuple[str, PreconditionError]]:
    refusals = (
        (name, registry.find_refusal(pipeline.settings.followers[name], table)) for name in pipeline.settings.followers
    )
    return [(name, refusal) for name, refusal in refusals if refusal and pipeline.settings.holds(name, table.name)]


def _leave_out_lines(pipeline: Pipeline, free: Mapping[str, Sequence[TableName]]) -> str:
    """The `leave_out` blocks: for each follower the tables in `free`, after those that it leaves out already."""
    blocks = "".join(
        f"\n  {follower}:\n    leave_out:\n"
        f"{table_lines([*pipeline.settings.leave_out_of(follower), *map(str, tables)], indent=6)}"
        for follower, tables in free.items()
        if tables
    )
    return f"\nfollowers:{blocks}" if blocks else ""
