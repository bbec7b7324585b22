"""The parts that a capture needs before its first copy: checked first, then made where they are missing."""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import closing
from typing import Final

from psycopg import Connection

from cdc.connect.capture import topics
from cdc.connect.settings import SourceSettings
from cdc.connect.source import publication, registration, schema_history
from cdc.connect.source.catalog import TablesRefusedError
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.connect.source.registration import Registration
from cdc.connect.source.relation import read_shapes
from cdc.core.errors import PreconditionError, SeveralErrors
from cdc.core.fail_points import reach
from cdc.core.table import Table, TableName
from cdc.log.clients.topics import Admin, Topic
from cdc.run.doctor.asking import SilentPartError
from cdc.run.doctor.parts import AskedParts
from cdc.run.doctor.runner import examine, list_bootstrap_checks
from cdc.run.pipeline import Pipeline
from cdc.run.tables.capture_parts import list_topics
from cdc.run.tables.column_notices import describe_text_columns, describe_unsent_columns
from cdc.run.tables.preflight import (
    accept_tables,
    add_refusals,
    describe_missing_plugins,
    describe_skipped,
    find_duplicates,
)

PATIENCE: Final = 6.0
"""A bootstrap waits longer for a busy part than a doctor does, since it ends where one does not answer."""


def run_preflight(
    pipeline: Pipeline,
    connection: Connection,
    names: Sequence[TableName],
    optional: Set[TableName],
    leave_out: Sequence[str] = (),
) -> tuple[list[Table], Mapping[TableName, Sequence[PreconditionError]], Sequence[PreconditionError]]:
    """Run the errors of `cdc doctor` before anything is made, but for the categories to `leave_out`.

    Returns the tables that can be followed, the reasons against the other `optional` ones, and notices: of checks and
    followers that go without, of columns that are not sent, or that a view takes for more than their text.
    Raises CdcError with every reason against the rest.
    """
    parts = AskedParts(pipeline, patience=PATIENCE)
    tables, skipped = _require(parts, connection, names, optional, leave_out)
    # does every follower answer? Asked now, not when it is filled: a copy may take hours before that
    for follower in pipeline.fed.values():
        with closing(follower):
            follower.position()
    plugins = parts.connect.plugins.keys()
    # once: `cdc status` and `cdc doctor` say it of all tables
    copied = pipeline.lake_follower.bookmarks()
    unsent = describe_unsent_columns(read_shapes(connection, [t.name for t in tables if t.name not in copied]))
    texts = describe_text_columns(pipeline, tables)
    return tables, skipped, [*describe_missing_plugins(plugins), *describe_skipped(pipeline, tables), *unsent, *texts]


def _require(
    parts: AskedParts,
    connection: Connection,
    names: Sequence[TableName],
    optional: Set[TableName],
    leave_out: Sequence[str],
) -> tuple[list[Table], Mapping[TableName, Sequence[PreconditionError]]]:
    """Raise all errors of the doctor, those of tables among them; returns what `accept_tables` does."""
    found = examine(parts, list_bootstrap_checks(leave_out))
    try:
        checked = parts.tables
        # in a session of the bootstrap, which may take its time: whole tables are read
        duplicates = find_duplicates(connection, parts.pipeline, checked.tables)
        refusals = add_refusals(checked.refusals, duplicates)
        accepted = accept_tables(parts.pipeline, names, (checked.tables, refusals), optional)
    except TablesRefusedError as refused:
        if found.errors:
            raise SeveralErrors([*found.errors, *refused.errors]) from None
        raise
    except SilentPartError as silent:
        raise found.error or silent.error from None
    if found.error:
        raise found.error
    return accepted


def prepare_capture(
    pipeline: Pipeline,
    connection: Connection,
    tables: Sequence[Table],
    say: Callable[[str], None],
    *,
    is_ours: bool = False,
    anew: Collection[TableName] = (),
) -> Registration:
    """Register the pipeline in the source, and make its publication, event triggers and topics where they are missing.

    `is_ours`: things with these names belong to this pipeline, even if its registration is gone. `anew`: tables that
    are copied after this, and published as the settings say now. Raises PreconditionError for a slot, publication or
    topic that belongs to somebody else.
    """
    src = pipeline.settings.source
    names = [table.name for table in tables]
    with Admin(pipeline.settings.log) as admin:
        required = list_topics(pipeline, names)
        if more := check_topics(pipeline, connection, admin, required, is_ours=is_ours):
            say(f"more partitions than log.partitions, followed as they are: {', '.join(more)}")
        registration.prepare_schema(connection, src)
        # before anything else is made: after a kill, the next run knows its own things by this row
        registered = registration.register(connection, src, make_registration(pipeline))
        reach("registration.written")
        # before the slot: Postgres decodes a change with the catalog of its moment, which needs the publication
        publication.publish(connection, src, list_published(pipeline, names), anew)
        reach("publication.made")
        _install_triggers(connection, src, say)
        reach("triggers.made")
        # before the connector writes: a topic created by the broker has its default number of partitions
        if altered := topics.ensure(admin, required):
            say(f"configured anew as the log block says: {', '.join(altered)}")
    reach("topics.made")
    return registered


def make_registration(pipeline: Pipeline) -> Registration:
    """The pipeline's registration, as its settings have it."""
    s = pipeline.settings
    return Registration(pipeline.name, s.source.slot, s.source.publication, s.log.prefix)


def list_published(pipeline: Pipeline, tables: Sequence[TableName]) -> list[TableName]:
    """What the publication is to have: these tables, and our own."""
    source = pipeline.settings.source
    return [*tables, heartbeat_table(source).name, schema_history.history_table(source).name]


def check_topics(
    pipeline: Pipeline, connection: Connection, admin: Admin, required: Sequence[Topic], *, is_ours: bool = False
) -> list[str]:
    """Check that the topics are this pipeline's, or free; returns those with more partitions than configured.

    Raises PreconditionError for what belongs to somebody else.
    """
    registered = registration.read_registration(connection, pipeline.settings.source, pipeline.name)
    return topics.check(admin, required, ours=is_ours or registered is not None)


def _install_triggers(connection: Connection, source: SourceSettings, say: Callable[[str], None]) -> None:
    """Install the triggers and the function that report schema changes; say how changes are noticed without them."""
    why_none = schema_history.install_triggers(connection, source)
    can_be_told = schema_history.install_function(connection, source)
    if not why_none:
        return
    call = f"; end a migration with SELECT {source.heartbeat_schema}.shapes_now() to report its changes"
    say(
        f"no event triggers ({why_none}): polling the catalog instead; schema changes undone between two polls are"
        f" missed{call if can_be_told else ''}"
    )
