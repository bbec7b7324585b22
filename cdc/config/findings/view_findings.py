"""Problems of views that the configuration file shows by itself."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from cdc.config.findings.table_findings import IDENTIFIER_BYTES
from cdc.connect.settings import SourceSettings
from cdc.core.errors import ConfigurationError
from cdc.core.settings import Finding
from cdc.core.table import TableName
from cdc.sinks.lake.history.shape import SEQUENCE, find_tracked, history_name
from cdc.views.definition import ViewDefinition
from cdc.views.order import sort_views
from cdc.views.settings import ViewSettings
from cdc.views.statement.final_windows import LATE, find_closing_window, list_read_tables, select_late
from cdc.views.statement.parsing import check_view, reading


def find_wrong_views(
    views: Mapping[str, ViewSettings], source: SourceSettings, histories: Collection[TableName] = ()
) -> list[Finding]:
    """Statements that do not parse or read a table that nobody follows, and names that are taken.

    `histories`: the tables of which a history is kept.
    """
    known = {*map(TableName.parse, views), *map(history_name, histories)}
    findings = [
        *_find_taken(views, histories),
        *(finding for name, view in views.items() for finding in _find_wrong(name, view, known, histories, source)),
    ]
    if not findings:
        try:
            sort_views(_define(name, view) for name, view in views.items())
        except ConfigurationError as error:
            findings.append(((), error.what))
    return findings


def find_misnamed_views(views: Mapping[str, ViewSettings], source: SourceSettings) -> list[Finding]:
    """Names that are none, or that two views have, or a view and a table: of their letters, case tells none apart."""
    findings, seen = list[Finding](), {str(table).lower(): f"table {table}" for table in source.selection.names}
    # those of the file first: whatever their order, it is `final_after` that asks for one more
    for place, name in [*(((name,), name) for name in views), *_list_late(views)]:
        parsed = TableName.parse(name)
        told, folded = _explain_no_name(parsed), str(parsed).lower()
        if told is None and parsed in source.selection:
            told = "has the name of a table that is followed"
        elif told is None and folded in seen:
            told = f"has the name of {seen[folded]}, up to the case of its letters"
        seen.setdefault(folded, f"view {name}")
        if told:
            findings.append(
                (place, told if len(place) == 1 else f"needs {name} for what comes too late, and that {told}")
            )
    return findings


def _list_late(views: Mapping[str, ViewSettings]) -> Iterator[tuple[tuple[str, ...], str]]:
    return (((name, "final_after"), f"{name}{LATE}") for name, view in views.items() if view.final_after)


def _explain_no_name(name: TableName) -> str | None:
    parts = (name.schema, name.table)
    if all(part.strip() and len(part.encode()) <= IDENTIFIER_BYTES and part.isprintable() for part in parts):
        return None
    return f"is no name of a view: schema.view, each of 1 to {IDENTIFIER_BYTES} bytes that can be printed"


def _find_taken(views: Iterable[str], histories: Collection[TableName]) -> Iterator[Finding]:
    for name in views:
        if tracked := find_tracked(TableName.parse(name), histories):
            yield (name,), f"is what the history of {tracked} is named, or may be, and nothing replaces a history"


def _find_wrong(
    name: str,
    view: ViewSettings,
    known: Collection[TableName],
    histories: Collection[TableName],
    source: SourceSettings,
) -> Iterator[Finding]:
    if TableName.parse(name).schema == source.heartbeat_schema:
        yield (name,), "has the name of a table that is followed"
    try:
        with reading(name):
            check_view(name, view.sql, view.key)
            tables, closing = list_read_tables(_define(name, view)), find_closing_window(_define(name, view))
    except ConfigurationError as error:
        yield (name, "sql"), error.what.removeprefix(f"views.{name}: ")
        return
    if closing and closing.history not in known:
        yield (name, "final_after"), f"needs the history of {closing.reference.table}: name it in `history:`"
        return
    for table in tables:
        # a later epoch of a history is there once it has begun
        if table not in known and not find_tracked(table, histories) and table not in source.selection:
            told = f"reads {table}, which is none of source.tables, no history and no view"
            yield (name, "sql"), told + _spell(table, known, source)


def _spell(table: TableName, known: Collection[TableName], source: SourceSettings) -> str:
    """What to write where a name differs in its letters only."""
    names = [*known, *source.selection.names]
    found = next((name for name in names if str(name).lower() == str(table).lower()), None)
    return (
        f": write `{found.schema}`.`{found.table}`, since names without backticks are in small letters" if found else ""
    )


def add_late_views(views: Mapping[str, ViewSettings]) -> dict[str, ViewSettings]:
    """The views, and behind each whose windows close one with what came too late."""
    complete = dict[str, ViewSettings]()
    for name, view in views.items():
        complete[name] = view
        closing = find_closing_window(_define(name, view))
        if closing:
            complete[f"{name}{LATE}"] = ViewSettings(sql=select_late(closing), key=[SEQUENCE])
    return complete


def _define(name: str, view: ViewSettings) -> ViewDefinition:
    return ViewDefinition.of(name, view.sql, view.key, view.final_after)
