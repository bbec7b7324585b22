"""The two stores of the race: a table in Postgres and an index in OpenSearch."""

import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException
from opensearchpy.helpers import scan
from psycopg import Connection, sql

from cdc.core.errors import UnreachableError

Rows = dict[str, str]


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the clients write. `index` is None when they write to the database only."""

    dsn: str
    table: str
    search_url: str
    index: str | None

    def make(self) -> None:
        """Make the table if it is missing, and the index anew; both are empty then."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            name = sql.Identifier(self.table)
            make = "CREATE TABLE IF NOT EXISTS {} (id text PRIMARY KEY, value text NOT NULL)"
            connection.execute(sql.SQL(make).format(name))
            # not dropped: a second run follows the same table on
            connection.execute(sql.SQL("TRUNCATE {}").format(name))
        if self.index:
            fields = {"id": {"type": "keyword"}, "value": {"type": "keyword"}}
            # no replica: the index has one node, and a second copy would never be placed
            body = {"settings": {"number_of_replicas": 0}, "mappings": {"properties": fields}}
            with open_client(self.search_url) as client:
                client.indices.delete(index=self.index, params={"ignore_unavailable": "true"})
                client.indices.create(index=self.index, body=body)

    def read(self) -> tuple[Rows, Rows]:
        """Read the whole table, and the whole index by the `id` of its documents."""
        with psycopg.connect(self.dsn) as connection:
            query = sql.SQL("SELECT id, value FROM {}").format(sql.Identifier(self.table))
            table: Rows = dict(connection.execute(query).fetchall())
        with open_client(self.search_url) as client:
            # a search sees only documents from before the last refresh
            client.indices.refresh(index=self.index)
            hits = [hit["_source"] for hit in scan(client, index=self.index, size=5_000)]
        return table, {hit["id"]: hit["value"] for hit in hits}


class Client:
    """One client, with its own connection to each store."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._database: Connection = psycopg.connect(stores.dsn, autocommit=True)
        self._search = open_client(stores.search_url)
        name = sql.Identifier(stores.table)
        self._put = sql.SQL(
            # as in the index, the last writer wins, and nobody gets an error
            "INSERT INTO {} (id, value) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET value = EXCLUDED.value"
        ).format(name)
        self._get = sql.SQL("SELECT value FROM {} WHERE id = %s").format(name)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._search.close()

    def write_database(self, key: str, value: str) -> None:
        """Write the value in one committed transaction."""
        self._database.execute(self._put, (key, value))

    def write_index(self, key: str, value: str) -> None:
        """Write one document; does nothing without an index."""
        if self._stores.index:
            self._search.index(index=self._stores.index, id=key, body={"id": key, "value": value})

    def write_and_die_before_commit(self, key: str, value: str) -> None:
        """Write to both within one transaction of the database, whose connection breaks before its COMMIT."""
        with psycopg.connect(self._stores.dsn) as dying:
            dying.execute(self._put, (key, value))
            self.write_index(key, value)
            # otherwise the block would commit at its end
            dying.close()

    def write_and_miss_the_index(self, key: str, value: str) -> None:
        """Write to the database, then fail to write to an index that does not answer."""
        self.write_database(key, value)
        if self._stores.index:
            with _open_dead_address() as url, open_client(url) as away:
                try:
                    away.index(index=self._stores.index, id=key, body={"id": key, "value": value})
                except OpenSearchException:
                    return
                raise AssertionError("somebody answered where nobody listens")

    def holds(self, key: str) -> tuple[str, str]:
        """The values of the key in the database and in the index now; a dash for none."""
        row = self._database.execute(self._get, (key,)).fetchone()
        # by id: a search would need a refresh first
        document = (
            self._search.get(index=self._stores.index, id=key, params={"ignore": 404}) if self._stores.index else {}
        )
        return str(row[0]) if row else "-", document["_source"]["value"] if document.get("found") else "-"


def open_client(url: str) -> OpenSearch:
    """Open a client of OpenSearch that does not retry by itself."""
    return OpenSearch(hosts=[url], timeout=30, max_retries=0)


def find_differences(table: Mapping[str, str], index: Mapping[str, str]) -> list[str]:
    """The keys with different values in the two; including keys that only one of them has."""
    return sorted(key for key in table.keys() | index.keys() if table.get(key) != index.get(key))


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate the drivers' errors for a store that goes away; do not log the failures that the race provokes."""
    log = logging.getLogger("opensearch")
    before = log.level
    # the client logs every refused request, and the race provokes them
    log.setLevel(logging.CRITICAL)
    try:
        yield
    except (psycopg.OperationalError, OpenSearchException) as error:
        raise UnreachableError(f"a store of the race went away: {error}", "see `cdc parts`") from error
    finally:
        log.setLevel(before)


@contextmanager
def _open_dead_address() -> Iterator[str]:
    """Reserve an address at which nobody listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as reserved:
        # bound and never listening: connections are refused at once
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}"
