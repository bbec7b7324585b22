"""Where a lab works: the local parts, chance from a seed, and things that are gone when the lab ends."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from random import Random
from secrets import token_hex
from typing import Any, TypeVar

import psycopg
from kafka import TopicPartition
from kafka.errors import KafkaError
from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cdc.config.init import TemplateValues
from cdc.core.errors import UnreachableError
from cdc.lab import temporary
from cdc.lab.messages import encode, read_whole

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts answer: as the file of a pipeline says it, and the password itself."""

    values: TemplateValues
    postgres_password: str

    def postgres_dsn(self, database: str = "postgres") -> str:
        where = self.values
        address = make_conninfo(host=where.host, port=where.port, dbname=database)
        return make_conninfo(address, user=where.user, password=self.postgres_password)


class Workplace:
    """All that a lab works with. All names are those of one run, so that two runs do not meet.

    `random` gives the same sequence for the same seed; `say` prints a line about the work.
    """

    def __init__(self, parts: Parts, seed: int, say: Callable[[str], None], stack: ExitStack) -> None:
        self.parts = parts
        self.bootstrap, self.search_url = parts.values.bootstrap, parts.values.search_url
        self.random = Random(seed)  # noqa: S311
        self.say = say
        self._stack = stack
        self._run = token_hex(3)

    @cached_property
    def admin(self) -> Any:
        return self.keep(temporary.open_admin(self.bootstrap))

    def keep(self, thing: AbstractContextManager[T]) -> T:
        """Enter a context that lasts until the lab ends; returns its value."""
        return self._stack.enter_context(thing)

    def topic(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> str:
        """Make a topic of one replica; returns its full name."""
        full = self._name(name)
        topic = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(settings or {})}
        self.admin.create_topics({full: topic}, wait_for_metadata=True)
        self._stack.callback(self.admin.delete_topics, [full])
        return full

    def group(self, name: str) -> str:
        """The full name of a consumer group."""
        full = self._name(name)
        self._stack.callback(temporary.delete_group, self.admin, full)
        return full

    def producer(self, **settings: Any) -> Any:
        """As `open_producer`."""
        return self.keep(temporary.open_producer(self.bootstrap, **settings))

    def consumer(self, *partitions: TopicPartition, **settings: Any) -> Any:
        """As `open_consumer`."""
        return self.keep(temporary.open_consumer(self.bootstrap, *partitions, **settings))

    def publish(
        self,
        topic: str,
        events: Iterable[T],
        *,
        key: Callable[[T], str] | None = None,
        partition: Callable[[T], int] | None = None,
    ) -> str:
        """Write events as JSON in their order, each to the partition of its key or to that given; returns the topic."""
        producer = self.producer()
        for event in events:
            place = {"key": key(event) if key else None, "partition": partition(event) if partition else None}
            producer.send(topic, value=encode(event), **place)
        producer.flush()
        return topic

    def read(self, topic: str, kind: type[T], start: int | None = None) -> list[T]:
        """Read every event of a topic; those of one partition come in their order."""
        return [message.decode(kind) for message in read_whole(self.consumer(), topic, start)]

    def database(self, name: str) -> str:
        """Make a database; returns its connection string."""
        dsn, full = self.parts.postgres_dsn(), self._name(name).replace("-", "_")
        with psycopg.connect(dsn, autocommit=True) as session:
            session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(full)))
        self._stack.callback(temporary.drop_database, dsn, full)
        return self.parts.postgres_dsn(full)

    def session(self, dsn: str, **settings: Any) -> "psycopg.Connection[Any]":
        """A connection that commits every statement by itself."""
        return self.keep(psycopg.connect(dsn, autocommit=True, **settings))

    @cached_property
    def search(self) -> OpenSearch:
        client: OpenSearch = self.keep(OpenSearch(hosts=[self.search_url], timeout=60))
        return client

    def index(self, name: str) -> str:
        """The full name of an index in OpenSearch, which the lab makes."""
        full = self._name(name)
        self._stack.callback(self.search.indices.delete, index=full, params={"ignore_unavailable": "true"})
        return full

    def _name(self, name: str) -> str:
        return f"lab-{name}-{self._run}"


@contextmanager
def open_workplace(parts: Parts, seed: int, say: Callable[[str], None]) -> Iterator[Workplace]:
    """Open a workplace. Whatever was made in it is removed at the end, after a failure or Ctrl-C, too.

    Raises UnreachableError instead of the drivers' errors.
    """
    # kafka-python logs what it tries again, which a lab provokes
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    try:
        with ExitStack() as stack:
            yield Workplace(parts, seed, say, stack)
    except (KafkaError, psycopg.OperationalError, OpenSearchException) as error:
        raise UnreachableError(f"a part went away from the lab: {error}", "see `cdc parts`") from error
