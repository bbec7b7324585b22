"""A look at a Kafka cluster: its brokers, some of its topics, and their configuration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from cdc.log.clients.connection import REQUEST_SECONDS, UNKNOWN, Connection
from cdc.log.settings import LogSettings


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    """A topic as it is. `replicas`: of its first partition. `lagging`, `leaderless`: numbers of partitions whose
    replicas are not all in sync, or that nobody serves."""

    name: str
    partitions: int
    replicas: int
    lagging: int = 0
    leaderless: int = 0
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KafkaFacts:
    """`brokers`: how many there are. `config`: of one of them."""

    brokers: int
    topics: Mapping[str, DescribedTopic]
    config: Mapping[str, str]


def read_cluster(log: LogSettings, is_wanted: Callable[[str], bool], seconds: float = REQUEST_SECONDS) -> KafkaFacts:
    """Read the state of the wanted topics; `seconds`: for each of two requests. Raises CdcError."""
    connection, seconds = Connection(log), min(seconds, REQUEST_SECONDS)
    with connection.translate_errors(), AdminClient(connection.options()) as client:
        connection.attach(client)
        found = connection.ask(lambda: client.list_topics(timeout=seconds))
        kept = {name: topic for name, topic in found.topics.items() if is_wanted(name)}
        broker = str(min(found.brokers))
        configs = _read_configs(client, [*kept], broker, seconds)
        states = {name: _to_state(name, topic, configs.get(name, {})) for name, topic in kept.items()}
        return KafkaFacts(len(found.brokers), states, configs[""])


def read_operations(
    log: LogSettings, names: Sequence[str], seconds: float = REQUEST_SECONDS
) -> Mapping[str, frozenset[str]]:
    """What our principal may do with each of these topics that are there; nothing, where it may not know of one.

    Without an authorizer everybody may do everything. Raises CdcError.
    """
    connection, operations = Connection(log), dict[str, frozenset[str]]()
    with connection.translate_errors(), AdminClient(connection.options()) as client:
        asked = client.describe_topics(
            TopicCollection([*names]), include_authorized_operations=True, request_timeout=min(seconds, REQUEST_SECONDS)
        )
        for name, answer in asked.items():
            try:
                operations[name] = frozenset(each.name for each in answer.result().authorized_operations or ())
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    operations[name] = frozenset()
                elif error.args[0].code() not in UNKNOWN:
                    raise
    return operations


def _read_configs(
    client: AdminClient, names: Sequence[str], broker: str, seconds: float
) -> Mapping[str, Mapping[str, str]]:
    """The configuration of each topic; that of the broker as the one without a name."""
    wanted = {ConfigResource(ConfigResource.Type.TOPIC, name): name for name in names}
    wanted[ConfigResource(ConfigResource.Type.BROKER, broker)] = ""
    answers = client.describe_configs([*wanted], request_timeout=seconds)
    return {
        wanted[resource]: {name: str(entry.value) for name, entry in answer.result().items()}
        for resource, answer in answers.items()
    }


def _to_state(name: str, topic: Any, config: Mapping[str, str]) -> DescribedTopic:
    parts = [*topic.partitions.values()]
    return DescribedTopic(
        name,
        len(parts),
        len(parts[0].replicas) if parts else 0,
        sum(len(part.isrs) < len(part.replicas) for part in parts),
        sum(part.leader < 0 for part in parts),
        config,
    )
