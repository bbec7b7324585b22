"""The two stores of the race, as a client sees them: a table in Postgres and an index in OpenSearch."""

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
    """Where the clients write: `index` None means that they write to the database only, and leave the rest to it."""

    dsn: str
    table: str
    search_url: str
    index: str | None


class Client:
    """One client with a connection of its own to each store."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._database: Connection = psycopg.connect(stores.dsn, autocommit=True)
        self._search = opened(stores.search_url)
        name = sql.Identifier(stores.table)
        self._put = sql.SQL(
            "INSERT INTO {} (id, value) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET value = EXCLUDED.value"
        ).format(name)
        self._get = sql.SQL("SELECT value FROM {} WHERE id = %s").format(name)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._search.close()

    def write_database(self, key: str, value: str) -> None:
        """One committed transaction."""
        self._database.execute(self._put, (key, value))

    def write_index(self, key: str, value: str) -> None:
        """One document; nothing where the index is left to the log."""
        if self._stores.index:
            self._search.index(index=self._stores.index, id=key, body={"id": key, "value": value})

    def write_and_die_before_commit(self, key: str, value: str) -> None:
        """Write to both inside one transaction of the database, and let the connection break before its COMMIT."""
        with psycopg.connect(self._stores.dsn) as dying:
            dying.execute(self._put, (key, value))
            self.write_index(key, value)
            # else the block would commit at its end
            dying.close()

    def write_and_miss_the_index(self, key: str, value: str) -> None:
        """Write to the database, and then fail on an index that does not answer."""
        self.write_database(key, value)
        if self._stores.index:
            with _nobody() as url, opened(url) as away:
                try:
                    away.index(index=self._stores.index, id=key, body={"id": key, "value": value})
                except OpenSearchException:
                    return
                raise AssertionError("somebody answered where nobody listens")

    def holds(self, key: str) -> tuple[str, str]:
        """What the database and the index have under the key now; a dash where they have nothing."""
        row = self._database.execute(self._get, (key,)).fetchone()
        # by its id, which needs no refresh, as a search would
        found = self._search.get(index=self._stores.index, id=key, params={"ignore": 404}) if self._stores.index else {}
        return str(row[0]) if row else "-", found["_source"]["value"] if found.get("found") else "-"


def opened(url: str) -> OpenSearch:
    """A client of the index that does not try again by itself."""
    return OpenSearch(hosts=[url], timeout=30, max_retries=0)


def table_rows(dsn: str, table: str) -> Rows:
    """Everything that the table holds."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(sql.SQL("SELECT id, value FROM {}").format(sql.Identifier(table))).fetchall()
    return dict(rows)


def index_rows(url: str, index: str) -> Rows:
    """Everything that the index holds, by the `id` of its documents."""
    with opened(url) as client:
        # a search finds what was there at the last refresh only
        client.indices.refresh(index=index)
        hits = scan(client, index=index, size=5_000)
        return {hit["_source"]["id"]: hit["_source"]["value"] for hit in hits}


def apart(table: Mapping[str, str], index: Mapping[str, str]) -> list[str]:
    """The keys under which the two do not hold the same; one that is in only one of them counts."""
    return sorted(key for key in table.keys() | index.keys() if table.get(key) != index.get(key))


def make_table(dsn: str, table: str) -> None:
    """Make the table, if it is not there, and empty it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        name = sql.Identifier(table)
        make = "CREATE TABLE IF NOT EXISTS {} (id text PRIMARY KEY, value text NOT NULL)"
        connection.execute(sql.SQL(make).format(name))
        connection.execute(sql.SQL("TRUNCATE {}").format(name))


def make_index(url: str, index: str) -> None:
    """Make the index anew, empty."""
    with opened(url) as client:
        client.indices.delete(index=index, params={"ignore_unavailable": "true"})
        fields = {"id": {"type": "keyword"}, "value": {"type": "keyword"}}
        client.indices.create(
            index=index,
            body={"settings": {"number_of_replicas": 0}, "mappings": {"properties": fields}},
        )


@contextmanager
def reported() -> Iterator[None]:
    """Turn what the drivers raise when a store goes away into one line; failures on purpose are not logged."""
    log = logging.getLogger("opensearch")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    except (psycopg.OperationalError, OpenSearchException) as error:
        raise UnreachableError(f"a store of the race went away: {error}", "see `cdc parts`") from error
    finally:
        log.setLevel(before)


@contextmanager
def _nobody() -> Iterator[str]:
    """An address at which nobody listens, and where nobody can begin to meanwhile."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as taken:
        # bound and never listening: connections are refused at once
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
