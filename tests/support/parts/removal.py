"""Takes away what pipelines of tests have on the parts: beside the next tests, since that is waiting for the parts."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

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


Remove = Callable[[Servers, Sequence[Traces]], object]


@pytest.fixture(scope="session")
def removal(servers: Servers) -> Iterator[Remove]:
    """Begins to take away, and returns. A failure of it is an error of the last test that this process runs."""
    begun: list[Future[None]] = []
    with ThreadPoolExecutor(1, "removal") as thread:
        yield lambda held, traces: begun.append(thread.submit(remove_traces, held, traces))
    for each in begun:
        each.result()


def remove_traces(servers: Servers, traces: Sequence[Traces]) -> None:
    """Take connectors, slots and databases away."""
    # all connectors before the first database is dropped
    for each in traces:
        with ConnectClient(each.connect_url) as client:
            client.delete(each.connector)
    for database in {each.database for each in traces}:
        _drop_database(servers, database)


def _drop_database(servers: Servers, database: str) -> None:
    with servers.connect() as admin:
        busy = "SELECT count(*) FROM pg_replication_slots WHERE database = %s AND active"
        until(lambda: admin.execute(busy, (database,)).fetchone() == (0,), "nobody reads from the slots")
        drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s"
        admin.execute(drop, (database,))
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))
