"""The publication: there, ours, and whole."""

from collections.abc import Iterator
from typing import Final

from cdc.connect.source import publication, schema_history
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.core.errors import RECAPTURE, HistoryLostError
from cdc.core.table import TableName
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.fixes import JointStatement, quote
from cdc.run.doctor.parts import AskedParts
from cdc.run.doctor.role_script import make_own_schema, register

_PRINTS: Final = "`cdc doctor --fix-sql` prints: publication and schema"


@check("publication.there", Severity.ERROR, "what is written without it cannot be decoded", at_bootstrap=False)
def find_lost(parts: AskedParts) -> Iterator[Fault]:
    """A pipeline that has begun has its publication."""
    name = parts.settings.source.publication
    if parts.source.registered and parts.source.publication.row is None and parts.has_copy:
        yield Fault(name, f"publication {name} is gone", RECAPTURE, kind=HistoryLostError)


@check("publication.ours", Severity.ERROR, "the bootstrap would alter what belongs to somebody else")
def find_foreign(parts: AskedParts) -> Iterator[Fault]:
    """A publication of that name is this pipeline's."""
    name = parts.settings.source.publication
    if parts.is_new and parts.source.publication.row is not None:
        what = f"publication {name} is there already and is not this pipeline's"
        drop = quote("DROP PUBLICATION {}", name)
        yield Fault(name, what, "choose another source.publication, or drop it", (JointStatement(drop),))


@check("publication.may_alter", Severity.ERROR, "tables are published by who owns them and the publication")
def find_missing_ownership(parts: AskedParts) -> Iterator[Fault]:
    """The role may publish the tables that are not published yet."""
    lacking = [name for name in parts.tables.shapes if name not in parts.source.publication.tables]
    sizes = parts.tables.sizes
    foreign = [name for name in lacking if name in sizes and not sizes[name].is_owned]
    row, name = parts.source.publication.row, parts.settings.source.publication
    may = bool(parts.source.role["may_create"]) if row is None else bool(row["owned"])
    # the toolkit's own tables are in it, too
    own = [] if row is not None else list_own_tables(parts)
    if lacking and (foreign or not may) and not parts.source.role["rolsuper"]:
        make = publication.make_create_sql if row is None else publication.make_add_sql
        statement = make(name, [*lacking, *own], parts.source.publication.parts).as_string()
        what = f"this role may not change publication {name}"
        # made by another, it is this pipeline's only if the registration says so
        before, behind = (make_own_schema(parts.settings), [register(parts.settings)]) if row is None else ([], [])
        # a new one has our own tables in it, which have to be there before
        remedy = f"run as owner: {statement}" if row else f"have an administrator of the source run what {_PRINTS}"
        yield Fault(name, what, remedy, (*before, JointStatement(statement), *behind))


@check("publication.operations", Severity.ERROR, "a change that is left out is in no follower")
def find_left_out(parts: AskedParts) -> Iterator[Fault]:
    """It publishes all four operations, under the names of partitioned tables."""
    row, name = parts.source.publication.row, parts.settings.source.publication
    if row is None:
        return
    if not all(row[operation] for operation in ("pubinsert", "pubupdate", "pubdelete", "pubtruncate", "pubviaroot")):
        alter = quote("ALTER PUBLICATION {} SET", name)
        alter += f" (publish = '{publication.OPERATIONS}', publish_via_partition_root = true)"
        yield Fault(name, f"publication {name} leaves changes out", alter, (JointStatement(alter),))


@check(
    "publication.whole_tables",
    Severity.ERROR,
    "the copy has what cdc.yaml says, and another stream would diverge from it",
)
def find_partial(parts: AskedParts) -> Iterator[Fault]:
    """It has the row filters and lists of columns that `source.where` and `source.mask` ask for, and no others."""
    if partial := parts.source.publication.partial:
        statements = tuple(map(JointStatement, partial.statements))
        yield Fault(parts.settings.source.publication, partial.what, "; ".join(partial.statements), statements)


@check("publication.covers", Severity.ERROR, "a table that is not in it is not captured", at_bootstrap=False)
def find_uncovered(parts: AskedParts) -> Iterator[Fault]:
    """A pipeline that has begun publishes every table that it follows, and the toolkit's own."""
    found, name = parts.source.publication, parts.settings.source.publication
    if found.row is None or parts.source.registered is None or found.row["puballtables"]:
        return
    wanted = [*(table.name for table in parts.tables.tables if table.name not in parts.tables.refusals)]
    if lacking := [table for table in (*wanted, *list_own_tables(parts)) if table not in found.tables]:
        named = ", ".join(map(str, lacking))
        yield Fault(name, f"publication {name} lacks {named}", "`cdc bootstrap` adds and copies what is missing")


@check(
    "publication.all_tables", Severity.NOTE, "changes of tables that nobody follows are decoded, sent and thrown away"
)
def find_too_much(parts: AskedParts) -> Iterator[Fault]:
    """It publishes the tables that are followed, not all of the database."""
    row, name = parts.source.publication.row, parts.settings.source.publication
    if row is not None and row["puballtables"]:
        yield Fault(name, f"publication {name} is FOR ALL TABLES", "leave it, or make it anew by `cdc recapture`")


def list_own_tables(parts: AskedParts) -> list[TableName]:
    """The toolkit's own captured tables."""
    source = parts.settings.source
    return [heartbeat_table(source).name, schema_history.history_table(source).name]
