"""What the checks ask: each part once, together, and only as far as some check needs it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from cdc.config.settings import PipelineSettings
from cdc.connect.capture.debezium_properties import OUR_CLASSES
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.log.clients.administration import can_ask, open_administration, read_version
from cdc.log.clients.cluster import KafkaFacts, read_cluster, read_operations
from cdc.log.clients.open_transactions import OpenTransaction, find_open_transactions
from cdc.log.names import debezium_heartbeat_topic, latest_topic
from cdc.run.doctor.asking import PartQuestion, SilentPartError
from cdc.run.doctor.facts.access import Access, find_access
from cdc.run.doctor.facts.connect import ConnectFacts, WantedConnector, read_connect, read_wanted
from cdc.run.doctor.facts.machine import MachineFacts, read_machine
from cdc.run.doctor.facts.search import SearchFacts, read_search
from cdc.run.doctor.facts.source import Row, ServerFacts, SourceFacts, read_source
from cdc.run.doctor.facts.standby import StandbyFacts, read_standby
from cdc.run.doctor.facts.store import StoreFacts, read_store
from cdc.run.doctor.facts.tables import TableFacts, read_tables
from cdc.run.doctor.facts.workers import WorkerPython, read_worker_python
from cdc.run.doctor.providers import Provider, tell_provider
from cdc.run.pipeline import Pipeline
from cdc.run.status.stream_report import CatalogReport, open_reports
from cdc.run.tables.capture_parts import list_topics
from cdc.run.tables.selection import list_followed
from cdc.sinks.opensearch.settings import ClusterSettings

REQUEST_SECONDS: Final = 3.0
MOST_SECONDS: Final = 10.0
PART_SECONDS: Final = 5.5
"""How long a part may take to answer all that is asked of it."""
SECOND_SECONDS: Final = 7.0
"""The same where the answer of another is needed first, so that this one is silent, and not both."""
THIRD_SECONDS: Final = 7.7
_STATE_TOPICS: Final = ("configs", "offsets", "status", "config", "offset")
Answer = TypeVar("Answer")


class AskedParts:
    """The parts of one pipeline, for any number of threads; each answer is asked for once, and kept.

    `known`: answers that are given instead of asked for, by the property; a cluster's by its follower. Every answer may
    raise SilentPartError. `patience`: a part may take so many times as long as for a doctor, who ends in ten seconds.
    """

    def __init__(self, pipeline: Pipeline, known: Mapping[str, Any] | None = None, patience: float = 1.0) -> None:
        self._pipeline, self.patience = pipeline, patience
        self._known = known or {}
        named = {name: s for name, s in pipeline.settings.followers.items() if isinstance(s, ClusterSettings)}
        self.clusters: Mapping[str, ClusterSettings] = named
        self._access = self._question("access", "source.tcp", "the source", self._find_access)
        self._source = self._question(
            "source", "source.answers", "the source", lambda own: read_source(own, self.access), SECOND_SECONDS
        )
        self._standby = self._question("standby", "standby.answers", "the standby", self._read_standby, SECOND_SECONDS)
        self._tables = self._question("tables", "tables.answers", "the source", self._read_tables, SECOND_SECONDS)
        self._connect = self._question("connect", "connect.answers", "Kafka Connect", read_connect)
        self._wanted = self._question("wanted", "connect.validates", "Kafka Connect", self._read_wanted, THIRD_SECONDS)
        self._cluster = self._question("cluster", "kafka.answers", "Kafka", self._read_cluster)
        self._brokers = self._question("brokers", "kafka.answers", "Kafka", self._read_version, SECOND_SECONDS)
        self._rights = self._question("rights", "kafka.answers", "Kafka", self._read_rights, SECOND_SECONDS)
        self._open = self._question("open", "kafka.answers", "Kafka", self._find_open_transactions, SECOND_SECONDS)
        self._workers = self._question("workers", "spark.workers", "Spark's Python", read_worker_python)
        self._machine = self._question("machine", "machine.answers", "this machine", read_machine)
        self._position = self._question(
            "position", "lake.answers", "the lake", lambda own: own.lake_follower.position()
        )
        self._catalog = self._question("catalog", "machine.answers", "this machine", _read_catalog)
        self._store = self._question("store", "lake.answers", "the lake", read_store)
        self._search = {name: self._ask_cluster(name, settings) for name, settings in named.items()}

    @property
    def settings(self) -> PipelineSettings:
        return self._pipeline.settings

    @property
    def pipeline(self) -> Pipeline:
        """The same pipeline with nothing opened: for the thread that asks."""
        return self._pipeline.reopened()

    @property
    def access(self) -> Access:
        return self._access.get()

    @property
    def source(self) -> SourceFacts:
        return self._source.get()

    @property
    def standby(self) -> StandbyFacts | None:
        """The standby on which the slot lives; None where the source has it itself."""
        return self._standby.get()

    @property
    def slots(self) -> Sequence[Row]:
        """The slots of the server where ours lives."""
        return self.standby.slots if self.standby else self.source.slots

    @property
    def readers(self) -> Sequence[Row]:
        """The walsenders of the server where our slot lives."""
        return self.standby.readers if self.standby else self.source.readers

    @property
    def decoder(self) -> ServerFacts:
        """The server where the slot lives, as far as its settings go."""
        server = self.source.server
        found = self.standby
        return replace(server, settings=found.settings, senders=len(found.readers)) if found else server

    @property
    def tables(self) -> TableFacts:
        return self._tables.get()

    @property
    def connect(self) -> ConnectFacts:
        return self._connect.get()

    @property
    def wanted(self) -> WantedConnector:
        """The connector's configuration as it should be."""
        return self._wanted.get()

    @property
    def cluster(self) -> KafkaFacts:
        """The Kafka cluster."""
        return self._cluster.get()

    @property
    def broker_version(self) -> tuple[int, ...] | None:
        """None where the client that asks for it cannot log in."""
        # another client than the cluster's: of a silent one it would say the same in other words
        self._cluster.get()
        return self._brokers.get()

    @property
    def topic_rights(self) -> Mapping[str, frozenset[str]]:
        """What our principal may do with each topic that is there."""
        return self._rights.get()

    @property
    def open_transactions(self) -> Sequence[OpenTransaction]:
        """Those of the pipeline's topics, the capture's own among them."""
        return self._open.get()

    @property
    def worker_python(self) -> WorkerPython | None:
        """What `spark.python` is on this machine; None where it is not said, or elsewhere."""
        return self._workers.get()

    @property
    def machine(self) -> MachineFacts:
        return self._machine.get()

    @property
    def store(self) -> StoreFacts | None:
        """The lake's object store; None for a folder."""
        return self._store.get()

    @property
    def catalog(self) -> CatalogReport | None:
        """What `cdc follow` has noted of the catalog on this machine; None without one."""
        return self._catalog.get()

    @property
    def has_copy(self) -> bool:
        """Does the lake have a position, so that a capture has begun?"""
        return self._position.get() is not None

    @property
    def is_new(self) -> bool:
        """Has neither the source, as far as the role may see, nor the lake heard of this pipeline?"""
        return self.source.registered is None and self.source.schema_error is None and not self.has_copy

    @property
    def provider(self) -> Provider:
        """Who runs the source."""
        return tell_provider(self.source.server, self.settings.source.host)

    @property
    def names(self) -> Sequence[TableName]:
        """The tables to follow; without the source, those that are known."""
        try:
            return self.tables.names
        except SilentPartError:
            return list_followed(self.pipeline)

    def search(self, follower: str) -> SearchFacts:
        return self._search[follower].get()

    @property
    def _seconds(self) -> float:
        """How long one request may take."""
        return min(REQUEST_SECONDS * self.patience, MOST_SECONDS)

    def _read_standby(self, own: Pipeline) -> StandbyFacts | None:
        return read_standby(self.access) if own.settings.source.standby_host else None

    def _find_access(self, own: Pipeline) -> Access:
        return find_access(own.settings.source, self._seconds)

    def _question(
        self, name: str, check: str, about: str, ask: Callable[[Pipeline], Answer], seconds: float = PART_SECONDS
    ) -> PartQuestion[Answer]:
        question = PartQuestion(check, about, lambda: ask(self.pipeline), seconds * self.patience)
        if name in self._known:
            question.give(self._known[name])
        return question

    def _ask_cluster(self, name: str, settings: ClusterSettings) -> PartQuestion[SearchFacts]:
        def ask(_: Pipeline) -> SearchFacts:
            return read_search(settings, self._seconds)

        return self._question(name, "search.answers", f"follower {name}", ask)

    def _read_tables(self, own: Pipeline) -> TableFacts:
        try:
            plugins = frozenset(self.connect.plugins)
        except SilentPartError:
            # nothing is refused for the lack of a class that nobody could ask for
            plugins = OUR_CLASSES
        return read_tables(own, self.access, plugins)

    def _read_wanted(self, own: Pipeline) -> WantedConnector:
        return read_wanted(own, self.access, self.names, self.connect.plugins)

    def _topics(self, own: Pipeline) -> Sequence[str]:
        """The topics that the pipeline has, or is to have."""
        # those that share a name are told of the tables
        with suppress(PreconditionError):
            names = self.names
            latest = [latest_topic(own.settings.log.prefix, name) for name in names]
            return [*(topic.name for topic in list_topics(own, names)), *latest]
        return []

    def _read_version(self, own: Pipeline) -> tuple[int, ...] | None:
        if not can_ask(own.settings.log):
            return None
        with open_administration(own.settings.log, self._seconds) as client:
            return read_version(client)

    def _read_rights(self, own: Pipeline) -> Mapping[str, frozenset[str]]:
        return read_operations(own.settings.log, self._topics(own), self._seconds)

    def _find_open_transactions(self, own: Pipeline) -> Sequence[OpenTransaction]:
        return [*find_open_transactions(own.settings.log, self._topics(own))]

    def _read_cluster(self, own: Pipeline) -> KafkaFacts:
        prefix = own.settings.log.prefix
        beats = debezium_heartbeat_topic(prefix)
        return read_cluster(
            own.settings.log,
            lambda name: name.startswith(f"{prefix}.") or name == beats or is_of_connect(name),
            self._seconds,
        )


def _read_catalog(own: Pipeline) -> CatalogReport | None:
    return open_reports(own).read_catalog() if own.settings.catalog else None


def is_of_connect(topic: str) -> bool:
    """Does a topic's name look like one of those in which a Kafka Connect keeps its state?"""
    return "connect" in topic and topic.endswith(_STATE_TOPICS)
