"""Where a lab works: the local parts, chance from a seed, and things that are gone when the lab ends."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from random import Random
from secrets import token_hex
from typing import Any, Protocol, TypeVar

import psycopg
from kafka.errors import KafkaError
from opensearchpy.exceptions import OpenSearchException

from cdc.config.init import TemplateValues
from cdc.core.errors import UnreachableError
from cdc.lab import temporary

T = TypeVar("T")


class Parts(Protocol):
    """Where the parts answer."""

    @property
    def kafka_bootstrap(self) -> str: ...
    @property
    def search_url(self) -> str: ...
    def postgres_dsn(self, database: str = "postgres") -> str: ...
    def template_values(self) -> TemplateValues:
        """What the file of a pipeline says of these parts."""
        ...


class Workplace:
    """What a lab gets. All names are those of one run, so that two runs do not meet.

    `random` gives the same sequence for the same seed; `say` prints a line about the work.
    """

    def __init__(self, parts: Parts, seed: int, say: Callable[[str], None], stack: ExitStack) -> None:
        self.parts = parts
        self.random = Random(seed)  # noqa: S311
        self.say = say
        self._stack = stack
        self._run = token_hex(3)
        self._admin: Any = None

    @property
    def admin(self) -> Any:
        """An admin client of Kafka, the same one at every call."""
        if self._admin is None:
            self._admin = self.keep(temporary.open_admin(self.parts.kafka_bootstrap))
        return self._admin

    def keep(self, thing: AbstractContextManager[T]) -> T:
        """Enter a context that lasts until the lab ends; returns what it yields."""
        return self._stack.enter_context(thing)

    def topic(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> str:
        """Make a topic; returns its full name."""
        return self.keep(temporary.keep_topic(self.admin, self._name(name), partitions, settings or {}))

    def group(self, name: str) -> str:
        """The full name of a consumer group."""
        return self.keep(temporary.keep_group(self.admin, self._name(name)))

    def producer(self, **settings: Any) -> Any:
        """A producer of kafka-python that takes keys and values as text or bytes."""
        return self.keep(temporary.open_producer(self.parts.kafka_bootstrap, **settings))

    def consumer(self, **settings: Any) -> Any:
        """A consumer of kafka-python that begins at the beginning and commits only when it is told to."""
        return self.keep(temporary.open_consumer(self.parts.kafka_bootstrap, **settings))

    def database(self, name: str) -> str:
        """Make a database; returns its connection string."""
        full = self._name(name).replace("-", "_")
        self.keep(temporary.keep_database(self.parts.postgres_dsn(), full))
        return self.parts.postgres_dsn(full)

    def index(self, name: str) -> str:
        """The full name of an index in OpenSearch, which the lab makes."""
        return self.keep(temporary.keep_index(self.parts.search_url, self._name(name)))

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
