"""What somebody does to the servers: topics, offsets, slot, indexes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from cdc.connect.capture import offsets
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import halt
from cdc.core.waiting import wait_until
from cdc.https import tls_context
from cdc.log.clients.topics import Admin
from cdc.log.names import change_topic
from cdc.sinks.opensearch.layout import index_name
from cdc.torture.faults.ground import Ground
from cdc.torture.schedule import PlannedFault
from cdc.torture.tables import PIPELINE

REQUEST_SECONDS: Final = 30.0


@contextmanager
def close_index(ground: Ground, fault: PlannedFault) -> Iterator[None]:
    _ask_index(ground, fault, "_close")
    try:
        yield
    finally:
        _ask_index(ground, fault, "_open")


def _ask_index(ground: Ground, fault: PlannedFault, what: str) -> None:
    index = index_name(PIPELINE, ground.table(fault))
    url = f"{ground.site.endpoints.search_url}/{index}*/{what}"
    httpx.post(url, timeout=REQUEST_SECONDS, trust_env=False, verify=tls_context()).raise_for_status()


@contextmanager
def add_partitions(ground: Ground, fault: PlannedFault) -> Iterator[None]:
    log, topic = ground.site.settings.log, _topic(ground, fault)
    with Admin(log) as admin:
        present = admin.topics([topic])[topic].partitions
    # by a name: a client that is collected answers nothing more
    client = AdminClient({"bootstrap.servers": log.bootstrap})
    for added in client.create_partitions([NewPartitions(topic, present + 1)]).values():
        added.result(REQUEST_SECONDS)
    yield


@contextmanager
def delete_topic(ground: Ground, fault: PlannedFault) -> Iterator[None]:
    with Admin(ground.site.settings.log) as admin:
        admin.delete([_topic(ground, fault)])
    yield


def _topic(ground: Ground, fault: PlannedFault) -> str:
    return change_topic(ground.site.settings.log.prefix, ground.table(fault))


@contextmanager
def forget_offsets(ground: Ground, _: PlannedFault) -> Iterator[None]:
    """Connect's offsets of the connector are deleted, as with its topic."""
    with _stopped_connector(ground) as (client, name):
        config = client.config(name) or {}
        offsets.forget_offsets(client, name, ground.site.settings.log)
        client.put(name, config)
        yield


@contextmanager
def drop_slot(ground: Ground, _: PlannedFault) -> Iterator[None]:
    """The slot is dropped, while nobody reads from it."""
    settings = ground.site.settings
    with _stopped_connector(ground), ground.site.connect() as session:
        is_idle = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
        slot = (settings.source.slot,)
        wait_until(lambda: session.execute(is_idle, slot).fetchone() == (1,), REQUEST_SECONDS)
        session.execute("SELECT pg_drop_replication_slot(%s)", slot)
        yield


@contextmanager
def _stopped_connector(ground: Ground) -> Iterator[tuple[ConnectClient, str]]:
    """The connector is stopped meanwhile."""
    name = ground.site.settings.connect.connector
    with ConnectClient(ground.site.endpoints.connect_login) as client:
        halt(client, name)
        try:
            yield client, name
        finally:
            client.resume(name)
