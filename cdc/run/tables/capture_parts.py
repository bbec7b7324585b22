"""What a pipeline's capture is made of, by the settings: its topics, and its connector's configuration."""

from collections.abc import Sequence, Set

from psycopg import Connection

from cdc.connect.capture import debezium_properties, topics
from cdc.connect.capture.masked_columns import read_masked_tables
from cdc.connect.source import catalog, schema_history
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.connect.source.registration import Registration
from cdc.core.table import TableName
from cdc.log.clients.topics import Topic
from cdc.run.pipeline import Pipeline


def list_topics(pipeline: Pipeline, tables: Sequence[TableName]) -> list[Topic]:
    """List the topics of the capture of these tables. Raises PreconditionError when two would share one."""
    src, messages = pipeline.settings.source, debezium_properties.sends_messages(pipeline.settings.connect)
    beats, history = heartbeat_table(src).name, schema_history.history_table(src).name
    return topics.required_topics(pipeline.settings.log, tables, beats, history, messages=messages)


def build_connector_config(
    pipeline: Pipeline,
    connection: Connection,
    registered: Registration,
    tables: Sequence[TableName],
    plugins: Set[str],
) -> dict[str, str]:
    """Build the configuration of the connector that captures these tables; `plugins`: classes that Connect has.

    It may have the source's password in it. The order of the tables does not matter: one that differed would restart
    the connector.
    """
    s, tables = pipeline.settings, sorted(tables)
    keys = catalog.find_other_keys(connection, tables, s.source.choices.keys)
    texts = s.source.choices.list_texts(tables)
    followed = {name: table.table for name, table in pipeline.lake_follower.tables.all().items()}
    masked = read_masked_tables(connection, s.source, tables, followed)
    captured = debezium_properties.CapturedTables(tables, keys, texts, s.log.max_row_bytes, plugins, masked)
    return debezium_properties.build_properties(connection, s.source, s.connect, registered, captured)
