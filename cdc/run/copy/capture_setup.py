"""The parts that a capture needs before its first copy: checked first, then made where they are missing."""

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing

from psycopg import Connection

from cdc.connect.capture import connector, debezium_properties, topics
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.settings import SourceSettings
from cdc.connect.source import catalog, preflight, publication, registration, schema_history, slot
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.connect.source.registration import Registration
from cdc.connect.source.relation import read_shapes
from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.log.clients.topics import Admin, Topic
from cdc.run.pipeline import Pipeline
from cdc.run.tables.column_notices import describe_text_columns, describe_unsent_columns
from cdc.run.tables.preflight import accept_tables, describe_missing_plugins, describe_skipped


def run_preflight(
    pipeline: Pipeline,
    connection: Connection,
    client: ConnectClient,
    names: Sequence[TableName],
    optional: Set[TableName],
) -> tuple[list[Table], Mapping[TableName, Sequence[PreconditionError]], Sequence[PreconditionError]]:
    """Check source, Kafka Connect, followers and tables, before anything is made.

    Returns the tables that can be followed, the reasons against the other `optional` ones, and notices: of checks and
    followers that go without, of columns that are not sent, or that a view takes for more than their text.
    Raises CdcError with every reason against the rest.
    """
    preflight.check_source(connection, pipeline.settings.source)
    connector.check_debezium(client)
    # does every follower answer? Asked now, not when it is filled: a copy may take hours before that
    for follower in pipeline.fed.values():
        with closing(follower):
            follower.position()
    plugins = client.extensions()
    tables, skipped = accept_tables(connection, pipeline, names, plugins, optional)
    unsent = describe_unsent_columns(read_shapes(connection, [table.name for table in tables]))
    texts = describe_text_columns(pipeline, tables)
    return tables, skipped, [*describe_missing_plugins(plugins), *describe_skipped(pipeline, tables), *unsent, *texts]


def prepare_capture(
    pipeline: Pipeline,
    connection: Connection,
    tables: Sequence[Table],
    say: Callable[[str], None],
    *,
    is_ours: bool = False,
) -> Registration:
    """Register the pipeline in the source, and make its publication, event triggers and topics where they are missing.

    `is_ours`: things with these names belong to this pipeline, even if its registration is gone. Raises
    PreconditionError for a slot, publication or topic that belongs to somebody else.
    """
    src = pipeline.settings.source
    names = [table.name for table in tables]
    with Admin(pipeline.settings.log) as admin:
        required = list_topics(pipeline, names)
        if more := check_owned(pipeline, connection, admin, required, is_ours=is_ours):
            say(f"more partitions than log.partitions, followed as they are: {', '.join(more)}")
        registration.prepare_schema(connection, src)
        # before anything else is made: after a kill, the next run knows its own things by this row
        registered = registration.register(connection, src, make_registration(pipeline))
        # before the slot: Postgres decodes a change with the catalog of its moment, which needs the publication
        publication.publish(connection, src.publication, list_published(pipeline, names))
        _install_triggers(connection, src, say)
        # before the connector writes: a topic created by the broker has its default number of partitions
        if altered := topics.ensure(admin, required):
            say(f"configured anew as the log block says: {', '.join(altered)}")
    return registered


def make_registration(pipeline: Pipeline) -> Registration:
    """The pipeline's registration, as its settings have it."""
    s = pipeline.settings
    return Registration(pipeline.name, s.source.slot, s.source.publication, s.log.prefix)


def list_published(pipeline: Pipeline, tables: Sequence[TableName]) -> list[TableName]:
    """What the publication is to have: these tables, and our own."""
    source = pipeline.settings.source
    return [*tables, heartbeat_table(source).name, schema_history.history_table(source).name]


def check_owned(
    pipeline: Pipeline, connection: Connection, admin: Admin, required: Sequence[Topic], *, is_ours: bool = False
) -> list[str]:
    """Check that slot, publication and topics are this pipeline's, or free; returns topics with more partitions than
    configured. Raises PreconditionError for what belongs to somebody else."""
    registered = registration.read_registration(connection, pipeline.settings.source, pipeline.name)
    is_ours = is_ours or registered is not None
    more = topics.check(admin, required, ours=is_ours)
    # unregistered things with these names are somebody else's: the connector would drain or alter them
    if not is_ours:
        _check_names_free(pipeline, connection)
    return more


def build_connector_properties(
    pipeline: Pipeline,
    connection: Connection,
    client: ConnectClient,
    registered: Registration,
    captured: Sequence[TableName],
) -> dict[str, str]:
    """The connector's properties with these tables."""
    s = pipeline.settings
    keys = catalog.find_other_keys(connection, captured, s.source.choices.keys)
    texts = s.source.choices.list_texts(captured)
    tables = debezium_properties.CapturedTables(captured, keys, texts, s.log.max_row_bytes, client.extensions())
    return debezium_properties.build_properties(connection, s.source, s.connect, registered, tables)


def list_topics(pipeline: Pipeline, tables: Sequence[TableName]) -> list[Topic]:
    """The topics of the pipeline's capture, of these tables. Raises PreconditionError when two would share one."""
    src, messages = pipeline.settings.source, debezium_properties.sends_messages(pipeline.settings.connect)
    beats, history = heartbeat_table(src).name, schema_history.history_table(src).name
    return topics.required_topics(pipeline.settings.log, tables, beats, history, messages=messages)


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


def _check_names_free(pipeline: Pipeline, connection: Connection) -> None:
    src = pipeline.settings.source
    if slot.read_state(connection, src.slot):
        raise PreconditionError(
            f"slot {src.slot} is there already and is not this pipeline's", "choose another source.slot, or drop it"
        )
    if publication.read_publication(connection, src.publication) is not None:
        raise PreconditionError(
            f"publication {src.publication} is there already and is not this pipeline's",
            "choose another source.publication, or drop it",
        )
    preflight.check_free_slot(connection)
