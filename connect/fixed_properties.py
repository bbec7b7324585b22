"""Debezium's properties that we decide: decoding and order depend on them, so a user cannot override them."""

from types import MappingProxyType
from typing import Final

CONNECTOR_CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"

FIXED: Final = MappingProxyType(
    {
        "connector.class": CONNECTOR_CLASS,
        # one slot has one order: the connector never runs more tasks
        "tasks.max": "1",
        # the default decoderbufs is an extension of the server
        "plugin.name": "pgoutput",
        # dropping the slot would lose changes made while the connector is stopped
        "slot.drop.on.stop": "false",
        # the default creates one for all tables, as superuser; `filtered` would replace ours at each start
        "publication.autocreate.mode": "disabled",
        # we copy the tables ourselves, on the slot's snapshot; a second snapshot would miss deletes in between
        "snapshot.mode": "no_data",
        # by default an offset below the slot's is raised to it without an error, and the changes between are lost
        "offset.mismatch.strategy": "trust_offset",
        # the driver's own flushing may confirm changes that are not in Kafka yet
        "lsn.flush.mode": "connector",
        # gives the order of commits: END events with counts, and the number of each change in its transaction
        "provide.transaction.metadata": "true",
        # TRUNCATE is skipped by default
        "skipped.operations": "none",
        "tombstones.on.delete": "true",
        # the default is bytes in base64, which cannot express NaN
        "decimal.handling.mode": "string",
        # by default the unit depends on the column's precision
        "time.precision.mode": "microseconds",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "json",
        "binary.handling.mode": "base64",
        # by default a column of an unknown type is left out, with a line in the worker's log
        "include.unknown.datatypes": "true",
        "event.processing.failure.handling.mode": "fail",
        "header.converter": JSON,
        "header.converter.schemas.enable": "false",
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        # by default a null is sent as the default of its column (KIP-581)
        "key.converter.replace.null.with.default": "false",
        "value.converter.replace.null.with.default": "false",
        # KIP-618: records and offsets in one transaction; without it, a kill -9 redelivers thousands of transactions
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
    }
)
"""Properties with the same value in every pipeline. Where Connect has our plugin, our converters replace its own."""
