"""Things that last as long as a lab, or as a process of it: clients, servers, processes. Each goes at its end."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseServer
from threading import Thread
from typing import Any, Final

import psycopg
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CoordinatorNotAvailableError, NodeNotReadyError, NonEmptyGroupError
from kafka.serializer import DefaultSerializer
from psycopg import sql

from cdc.core.waiting import wait_until

PATIENCE_MS: Final = 120_000  # how long a client waits for a broker on a busy machine
FORGETTING_SECONDS: Final = 60.0
LOCALHOST: Final = "127.0.0.1"
ENDING_SECONDS: Final = 30.0  # how long a process of a lab has to end by itself


def open_admin(bootstrap: str) -> AbstractContextManager[Any]:
    patience = {"bootstrap_timeout_ms": PATIENCE_MS, "request_timeout_ms": PATIENCE_MS}
    return closing(KafkaAdminClient(bootstrap_servers=bootstrap, **patience))


def open_producer(bootstrap: str, **settings: Any) -> AbstractContextManager[Any]:
    """Open a producer of kafka-python that takes keys and values as text or bytes."""
    given = {"key_serializer": DefaultSerializer(), "value_serializer": DefaultSerializer(), **settings}
    return closing(KafkaProducer(bootstrap_servers=bootstrap, bootstrap_timeout_ms=PATIENCE_MS, **given))


@contextmanager
def open_consumer(bootstrap: str, *partitions: TopicPartition, **settings: Any) -> Iterator[Any]:
    """Open a consumer of kafka-python, of these partitions if any are given.

    It begins at the beginning, or where its group is, and commits only when it is told to.
    """
    given = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **settings}
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, bootstrap_timeout_ms=PATIENCE_MS, **given)) as consumer:
        if partitions:
            consumer.assign(list(partitions))
        yield consumer


def delete_group(admin: Any, name: str) -> None:
    """Delete the offsets that a group has committed."""
    # members that went a moment ago are not forgotten at once
    wait_until(lambda: _is_deleted(admin, name), FORGETTING_SECONDS)


def _is_deleted(admin: Any, name: str) -> bool:
    """Delete a group, if it is there; returns False while it has members, or while no broker has been found."""
    try:
        return bool(admin.delete_groups([name])[name] != NonEmptyGroupError.__name__)
    # a broker that has never had a group has no coordinator
    except CoordinatorNotAvailableError:
        return True
    # the client raises it when its list of brokers has just gone stale
    except NodeNotReadyError:
        return False


def drop_database(dsn: str, name: str) -> None:
    """Drop a database with its replication slots, whoever is connected to it."""
    with psycopg.connect(dsn, autocommit=True) as session:
        # a database with a slot cannot be dropped
        slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s"
        session.execute(slots, (name,))
        session.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def keep_process(module: str, *arguments: str, stderr: int | None = None) -> "Iterator[subprocess.Popen[str]]":
    """Run a module of this project as a process; at the end its stdin is closed, by which it ends.

    `stderr`: as `subprocess.Popen` has it.
    """
    # this project may be a folder that is not installed
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    pipe = subprocess.PIPE
    # in a session of its own: Ctrl-C is for the lab, which then ends it
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", module, *arguments],
        stdin=pipe,
        stdout=pipe,
        stderr=stderr,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
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
        # also when a second Ctrl-C ends the wait; a process that has ended already is not met
        process.kill()


@contextmanager
def serve(server: BaseServer) -> Iterator[None]:
    """Let a server answer in a thread."""
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def make_web_server(take: Callable[[bytes], None], port: int = 0) -> ThreadingHTTPServer:
    """Make a server that takes the body of every request, and answers then. It ends when all is taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            take(self.rfile.read(int(self.headers["content-length"])))
            # who asked may be gone
            with suppress(OSError):
                self.send_response(204)
                self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing: by default every request is a line on stderr."""

    server = ThreadingHTTPServer((LOCALHOST, port), Handler)
    server.daemon_threads = False
    return server
