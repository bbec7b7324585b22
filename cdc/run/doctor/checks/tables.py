"""The tables that are to be followed."""

from collections.abc import Iterable, Iterator
from typing import Final

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.fixes import JointStatement, LoneStatement, quote
from cdc.run.doctor.parts import AskedParts
from cdc.sinks.latest.settings import LatestSettings

_BYTES_PER_HOUR: Final = 20 * 3600 << 20
"""What a copy takes in at least: 20 MiB in a second."""
_WIDE_PART: Final = 0.5
_ALTERS: Final = {
    "ALTER TABLE … SET LOGGED": "ALTER TABLE {} SET LOGGED",
    "ALTER TABLE … REPLICA IDENTITY DEFAULT": "ALTER TABLE {} REPLICA IDENTITY DEFAULT",
    "ALTER TABLE … REPLICA IDENTITY FULL": "ALTER TABLE {} REPLICA IDENTITY FULL",
    # a key would be better, and nobody else can say which one
    "add a primary key, or ALTER TABLE … REPLICA IDENTITY FULL": "ALTER TABLE {} REPLICA IDENTITY FULL",
}
"""How a remedy begins → the statement that does it."""


def _refusals(parts: AskedParts, *, are_named: bool) -> Iterator[tuple[TableName, PreconditionError]]:
    """The reasons against tables, but for rights, which have checks of their own."""
    named = set(parts.settings.selection.names)
    for table, reasons in parts.tables.refusals.items():
        if (table in named) is are_named:
            told = str(parts.tables.unreadable.get(table))
            yield from ((table, reason) for reason in reasons if str(reason) != told)


@check("tables.answers", Severity.ERROR, "without them there is nothing to follow")
def find_tables(parts: AskedParts) -> Iterator[Fault]:
    """The source tells of the tables that the settings name, and there are some."""
    _ = parts.tables
    yield from ()


@check(
    "tables.followable",
    Severity.ERROR,
    "what it needs is a key, or whole rows in the log, names and types that all parts take",
    at_bootstrap=False,
)
def find_refused(parts: AskedParts) -> Iterator[Fault]:
    """Each table that the settings name can be followed."""
    for table, reason in _refusals(parts, are_named=True):
        yield Fault.of(str(table), reason, *_suggest(parts, table, reason))


@check("tables.of_patterns", Severity.WARNING, "a table that a pattern names is not followed as long as that holds")
def find_left_out(parts: AskedParts) -> Iterator[Fault]:
    """Each table that a pattern names can be followed."""
    for table, reason in _refusals(parts, are_named=False):
        yield Fault.of(str(table), reason, *_suggest(parts, table, reason))


def _suggest(parts: AskedParts, table: TableName, reason: PreconditionError) -> tuple[JointStatement, ...]:
    """The statement that a reason's remedy names, if there is one, and it is enough."""
    name = (table.schema, table.table)
    if len(parts.tables.refusals[table]) > 1:
        return ()
    for sign, alter in _ALTERS.items():
        if reason.remedy.startswith(sign) and "partition" not in reason.what:
            return (JointStatement(quote(alter, name)),)
    return ()


def _notices(parts: AskedParts, kind: str) -> Iterator[Fault]:
    found: Iterable[PreconditionError] = parts.tables.notices.get(kind, ())
    for notice in found:
        yield Fault.of(notice.what.partition(":")[0].partition(" ")[0], notice)


@check("tables.generated_columns", Severity.NOTE, "Postgres does not send them, so no follower has them")
def find_generated(parts: AskedParts) -> Iterator[Fault]:
    """No table has generated columns."""
    return _notices(parts, "unsent_columns")


@check("tables.children", Severity.NOTE, "rows of a child come under its own name")
def find_children(parts: AskedParts) -> Iterator[Fault]:
    """Every table that inherits from a followed one is followed, or left out by name."""
    return _notices(parts, "children")


@check("tables.text_columns", Severity.NOTE, "sums and comparisons of a view would be those of texts")
def find_text_columns(parts: AskedParts) -> Iterator[Fault]:
    """No view takes a column that is text in the lake for more than its text."""
    return _notices(parts, "text_columns")


@check("tables.in_all_followers", Severity.NOTE, "a follower without it has no rows of it")
def find_skipped(parts: AskedParts) -> Iterator[Fault]:
    """Each follower can hold each table."""
    return _notices(parts, "left_out")


@check("tables.keyless", Severity.NOTE, "neither an index nor a latest log holds a table without a key")
def find_keyless(parts: AskedParts) -> Iterator[Fault]:
    """Each table has a key."""
    for table in parts.tables.tables:
        if not table.key and table.name not in parts.tables.refusals:
            what = f"{table.name} has no key: an update of it is a delete and an insert of whole rows"
            yield Fault(str(table.name), what, "name its key under source.keys, if it has one")


@check("tables.row_size", Severity.WARNING, "a change above log.max_row_bytes ends the capture")
def find_wide_rows(parts: AskedParts) -> Iterator[Fault]:
    """The mean row is well below `log.max_row_bytes`."""
    most = parts.settings.log.max_row_bytes
    if any(isinstance(follower, LatestSettings) for follower in parts.settings.followers.values()):
        most = min(most, parts.settings.log.latest.max_record_bytes)
    for table, size in parts.tables.sizes.items():
        if size.width > most * _WIDE_PART:
            what = f"the mean row of {table} has {size.width:,} bytes, and {most:,} are the most"
            yield Fault(str(table), what, "raise log.max_row_bytes and log.latest.max_record_bytes")


@check("tables.copy_time", Severity.WARNING, "changes that are made during the copy are read from the log behind it")
def find_long_copies(parts: AskedParts) -> Iterator[Fault]:
    """The copy takes less than half of `log.retention_hours`, at 20 MiB a second."""
    hours = sum(size.bytes for size in parts.tables.sizes.values()) / _BYTES_PER_HOUR
    if not parts.has_copy and hours > parts.settings.log.retention_hours / 2:
        kept = parts.settings.log.retention_hours
        what = f"the first copy may take {hours:,.0f} h, and the log keeps changes for {kept} h"
        yield Fault("log.retention_hours", what, "raise log.retention_hours")


@check("tables.locked", Severity.WARNING, "a copy, and a change of the publication, wait for who has locked it")
def find_locked(parts: AskedParts) -> Iterator[Fault]:
    """Nobody has a table locked."""
    for table, holders in parts.tables.locked.items():
        yield Fault(
            str(table), f"{table} is locked by {holders}", "wait until that ends, or end it (pg_terminate_backend)"
        )


@check("tables.analysed", Severity.NOTE, "nobody knows how many rows it has, so its copy shows no time left")
def find_unknown_sizes(parts: AskedParts) -> Iterator[Fault]:
    """Each table was analysed."""
    for table, size in parts.tables.sizes.items():
        if size.is_guessed:
            analyze = quote("ANALYZE {}", (table.schema, table.table))
            yield Fault(str(table), f"{table} was never analysed", analyze, (LoneStatement(analyze),))
