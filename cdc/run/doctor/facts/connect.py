"""What Kafka Connect says of itself, and of the connector that the settings ask for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cdc.connect.capture.connect_client import ConnectClient, KnownConnector
from cdc.connect.capture.connector_state import ConnectorState, look_up
from cdc.connect.source.registration import Registration
from cdc.core.table import TableName
from cdc.run.doctor.facts.access import Access
from cdc.run.pipeline import Pipeline
from cdc.run.tables.capture_parts import build_connector_config

_SECRET: Final = re.compile("password|secret|jaas|token|key", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ConnectFacts:
    """`version`: of Kafka. `plugins`: the version of each class. `others`: connectors that are not ours."""

    version: str
    plugins: Mapping[str, str]
    state: ConnectorState
    stored: Mapping[str, str] | None = None
    others: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WantedConnector:
    """The configuration that a bootstrap would give the connector, and what Connect has against it, by property."""

    config: Mapping[str, str]
    refusals: Mapping[str, Sequence[str]]


def read_connect(pipeline: Pipeline) -> ConnectFacts:
    """Ask Kafka Connect. Raises CdcError."""
    name = pipeline.settings.connect.connector
    with pipeline.open_connect() as client:
        plugins = {plugin.class_: plugin.version or "" for plugin in client.describe_plugins()}
        connectors: Mapping[str, KnownConnector] = client.connectors()
        others = {key: found.info.config for key, found in connectors.items() if key != name}
        stored = connectors[name].info.config if name in connectors else None
        return ConnectFacts(client.worker().version, plugins, look_up(client, name), stored, others)


def read_wanted(
    pipeline: Pipeline, access: Access, tables: Sequence[TableName], plugins: Mapping[str, str]
) -> WantedConnector:
    """Build the connector's configuration, and have Connect validate it. Raises CdcError."""
    src = pipeline.settings.source
    names = Registration(pipeline.name, src.slot, src.publication, pipeline.settings.log.prefix)
    with access.open() as connection:
        config = build_connector_config(pipeline, connection, names, tables, plugins.keys())
    with pipeline.open_connect() as client:
        return WantedConnector(config, _validate(client, {**config, "name": pipeline.settings.connect.connector}))


def _validate(client: ConnectClient, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    refusals: dict[str, list[str]] = {}
    secrets = [value for name, value in config.items() if value and _SECRET.search(name)]
    for problem in client.problems(config):
        name, _, why = problem.partition(": ")
        # Connect quotes the value that it refuses
        for secret in secrets:
            why = why.replace(secret, "…")
        refusals.setdefault(name, []).append(why)
    return refusals
