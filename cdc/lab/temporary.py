"""Things that last as long as a lab: clients, topics, groups, databases, indexes, processes. Each goes at its end."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import CoordinatorNotAvailableError, NodeNotReadyError, NonEmptyGroupError
from kafka.serializer import DefaultSerializer
from opensearchpy import OpenSearch
from psycopg import sql

from cdc.core.waiting import wait_until

PATIENCE_MS: Final = 120_000
"""How long a client waits for a broker on a busy machine."""
FORGETTING_SECONDS: Final = 60.0
ENDING_SECONDS: Final = 30.0
"""How long a process of a lab has to end by itself."""


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


def open_producer(bootstrap: str, **settings: Any) -> AbstractContextManager[Any]:
    """Open a producer of kafka-python that takes keys and values as text or bytes."""
    given = {"key_serializer": DefaultSerializer(), "value_serializer": DefaultSerializer(), **settings}
    return closing(KafkaProducer(bootstrap_servers=bootstrap, bootstrap_timeout_ms=PATIENCE_MS, **given))


def open_consumer(bootstrap: str, **settings: Any) -> AbstractContextManager[Any]:
    """Open a consumer of kafka-python that begins at the beginning and commits only when it is told to."""
    given = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **settings}
    return closing(KafkaConsumer(bootstrap_servers=bootstrap, bootstrap_timeout_ms=PATIENCE_MS, **given))


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
    """Delete a group, if it is there; returns False while it has members, or while no broker has been found."""
    try:
        return bool(admin.delete_groups([name])[name] != NonEmptyGroupError.__name__)
    # a broker that has never had a group has no coordinator
    except CoordinatorNotAvailableError:
        return True
    # the client raises it when its list of brokers has just gone stale
    except NodeNotReadyError:
        return False


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


@contextmanager
def keep_process(module: str, *arguments: str, stderr: int | None = None) -> "Iterator[subprocess.Popen[str]]":
    """Run a module of this project as a process; at the end its stdin is closed, by which it ends.

    `stderr`: as `subprocess.Popen` has it.
    """
    command = [sys.executable, "-m", module, *arguments]
    # this project may be a folder that is not installed
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    pipe = subprocess.PIPE
    # in a session of its own: Ctrl-C is for the lab, which then ends it
    with subprocess.Popen(  # noqa: S603
        command, stdin=pipe, stdout=pipe, stderr=stderr, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    if process.stdin:
        process.stdin.close()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_SECONDS)
    finally:
        # also when a second Ctrl-C ends the wait; who has ended already is not met
        process.kill()
