"""Takes away what pipelines of tests have on the parts: beside the next tests, since that is waiting for the parts."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import httpx
import pytest
from psycopg import sql

from cdc.connect.capture.connect_client import ConnectClient
from tests.support.parts.servers_fixture import Servers
from tests.support.waiting import until


@dataclass(frozen=True)
class Traces:
    """What a pipeline has on the parts."""

    connect_url: str
    connector: str
    database: str
    name: str
    """Of the pipeline: the names of its indexes begin with it."""


Remove = Callable[[Servers, Sequence[Traces]], object]


@pytest.fixture(scope="session")
def removal(servers: Servers) -> Iterator[Remove]:
    """Begins to take away, and returns. A failure of it is an error of the last test that this process runs."""
    begun: list[Future[None]] = []
    with ThreadPoolExecutor(1, "removal") as thread:

        def begin(held: Servers, traces: Sequence[Traces]) -> None:
            # opened here: they read all of the environment, which the next tests change meanwhile
            clients = _open_clients(traces)
            begun.append(thread.submit(_remove_by, clients, held, traces))

        yield begin
    for each in begun:
        each.result()


def remove_traces(servers: Servers, traces: Sequence[Traces]) -> None:
    """Take connectors, slots and databases away."""
    _remove_by(_open_clients(traces), servers, traces)


def _open_clients(traces: Sequence[Traces]) -> list[ConnectClient]:
    return [ConnectClient(each.connect_url) for each in traces]


def _remove_by(clients: Sequence[ConnectClient], servers: Servers, traces: Sequence[Traces]) -> None:
    # all connectors before the first database is dropped
    for each, client in zip(traces, clients, strict=True):
        with client:
            client.delete(each.connector)
    for database in {each.database for each in traces}:
        _drop_database(servers, database)
    for each in traces:
        delete_indexes(servers.values.search_url, each.name)


def delete_indexes(search_url: str, name: str) -> None:
    """Delete the indexes of a pipeline, by its name: a node of a small heap cannot keep those of all tests."""
    # a test may have stopped its own node for good
    with suppress(httpx.TransportError):
        # it reads nothing of the environment, which the next tests change meanwhile
        with httpx.Client(trust_env=False, timeout=120) as client:
            gone = client.delete(f"{search_url}/{name}-*", params={"expand_wildcards": "all"})
        gone.raise_for_status()


def _drop_database(servers: Servers, database: str) -> None:
    with servers.connect() as admin:
        busy = "SELECT count(*) FROM pg_replication_slots WHERE database = %s AND active"
        until(lambda: admin.execute(busy, (database,)).fetchone() == (0,), "nobody reads from the slots")
        drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s"
        admin.execute(drop, (database,))
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))
