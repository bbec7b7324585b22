"""Things that last as long as a lab: topics, consumer groups, databases, indexes. Each is removed at its end."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from kafka import KafkaAdminClient
from kafka.errors import CoordinatorNotAvailableError, NonEmptyGroupError
from opensearchpy import OpenSearch
from psycopg import sql

from cdc.core.waiting import wait_until

PATIENCE_MS: Final = 120_000
"""How long a client waits for a broker on a busy machine."""
FORGETTING_SECONDS: Final = 15.0


@contextmanager
def open_admin(bootstrap: str) -> Iterator[Any]:
    """Open an admin client of Kafka."""
    admin = KafkaAdminClient(
        bootstrap_servers=bootstrap, bootstrap_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS
    )
    try:
        yield admin
    finally:
        admin.close()


@contextmanager
def keep_topic(admin: Any, name: str, partitions: int, settings: Mapping[str, str]) -> Iterator[str]:
    """Make a topic of one replica; yields its name, and deletes it with all its messages."""
    topic = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(settings)}
    admin.create_topics({name: topic}, wait_for_metadata=True)
    try:
        yield name
    finally:
        admin.delete_topics([name])


@contextmanager
def keep_group(admin: Any, name: str) -> Iterator[str]:
    """Yield the name of a consumer group, and delete the offsets that it has committed."""
    try:
        yield name
    finally:
        # members that went a moment ago are not forgotten at once
        wait_until(lambda: _delete_group(admin, name), FORGETTING_SECONDS)


def _delete_group(admin: Any, name: str) -> bool:
    """Delete a group, if it is there; returns False while it has members."""
    try:
        return bool(admin.delete_groups([name])[name] != NonEmptyGroupError.__name__)
    # a broker that has never had a group has no coordinator
    except CoordinatorNotAvailableError:
        return True


@contextmanager
def keep_database(dsn: str, name: str) -> Iterator[None]:
    """Make a database; it is dropped with its replication slots, whoever is connected to it."""
    _drop_database(dsn, name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield
    finally:
        _drop_database(dsn, name)


def _drop_database(dsn: str, name: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        # a database with a slot cannot be dropped
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", (name,)
        )
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def keep_index(url: str, name: str) -> Iterator[str]:
    """Yield the name of an index of OpenSearch, which others make; it is deleted."""
    try:
        yield name
    finally:
        with OpenSearch(hosts=[url]) as client:
            client.indices.delete(index=name, params={"ignore_unavailable": "true"})
