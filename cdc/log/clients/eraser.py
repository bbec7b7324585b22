"""Takes records out of topics for good: rolls segments, deletes what lies before an offset, and sets topics back.

A broker deletes, or compacts, whole segments, and never the one that it writes to. A new segment begins with the next
record once the old one is `segment.ms` old. So a record is written that nobody reads: its transaction is aborted.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, Message, Producer, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

from cdc.core.errors import UnreachableError
from cdc.log.clients.connection import REQUEST_SECONDS
from cdc.log.clients.reader import Reader, Record
from cdc.log.clients.topics import Admin
from cdc.log.settings import LogSettings

FILLER: Final = b"cdc erase"
"""The key of records that are never committed."""
Own = Mapping[str, str | None]
"""Properties that a topic has of its own; None for one that it has not."""
Places = Mapping[int, int]
"""Offsets by partition."""


class LogEraser(Admin):
    """Acts on topics, each by its name."""

    def __init__(self, log: LogSettings) -> None:
        super().__init__(log)
        self._log = log

    def __enter__(self) -> "LogEraser":
        return self

    def read_own(self, topic: str, names: Collection[str]) -> Own:
        """What the topic itself says of these properties."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        with self._connection.translate_errors():
            [answer] = self._client.describe_configs([resource], request_timeout=REQUEST_SECONDS).values()
            found: Mapping[str, ConfigEntry] = answer.result()
        return {name: found[name].value if _is_own(found[name]) else None for name in names if name in found}

    def set_own(self, topic: str, properties: Own) -> None:
        """Set properties of a topic; takes those away that are None."""
        entries = [
            ConfigEntry(
                name,
                value or "",
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in properties.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        with self._connection.translate_errors():
            for done in self._client.incremental_alter_configs([resource], request_timeout=REQUEST_SECONDS).values():
                done.result()

    def roll(self, topic: str, partitions: Collection[int]) -> Places:
        """Write a record into each partition that is never committed; returns their offsets."""
        places = dict[int, int]()

        def note(error: object, message: Message) -> None:
            if error is None:
                places[message.partition() or 0] = message.offset() or 0

        options = {**self._connection.options(), "transactional.id": f"cdc-erase-{uuid.uuid4()}", "acks": "all"}
        with self._connection.translate_errors():
            producer = Producer(options)
            producer.init_transactions(REQUEST_SECONDS)
            producer.begin_transaction()
            for partition in partitions:
                producer.produce(topic, None, FILLER, partition, on_delivery=note)
            producer.flush(REQUEST_SECONDS)
            producer.abort_transaction(REQUEST_SECONDS)
        if places.keys() != {*partitions}:
            raise UnreachableError(
                f"Kafka {self._log.bootstrap} takes no record of {topic}", "is every broker running?"
            )
        return places

    def delete_before(self, topic: str, places: Places) -> None:
        """Delete what lies before these offsets."""
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in places.items()]
        with self._connection.translate_errors():
            for done in self._client.delete_records(wanted, request_timeout=REQUEST_SECONDS).values():
                done.result()

    def find_lagging(self, topic: str, behind: Places) -> Iterator[str]:
        """The consumer groups with a committed offset in the topic that is below one of these."""
        with self._connection.translate_errors():
            groups = self._client.list_consumer_groups(request_timeout=REQUEST_SECONDS).result().valid
            for group in groups:
                asked = [ConsumerGroupTopicPartitions(group.group_id)]
                [answer] = self._client.list_consumer_group_offsets(asked, request_timeout=REQUEST_SECONDS).values()
                if any(_is_behind(place, topic, behind) for place in answer.result().topic_partitions or ()):
                    yield group.group_id


def find_records(log: LogSettings, topic: str, is_wanted: Callable[[Record], bool]) -> Iterator[Record]:
    """The records of a topic, aborted and uncommitted ones too, for which that holds; all of it is read."""
    with Reader(log, committed=False) as reader:
        first, ends = reader.beginning([topic])[topic], reader.end([topic])[topic]
        for partition, end in ends.items():
            for record in reader.read(topic, partition, first.get(partition, 0), end):
                if record.key != FILLER and is_wanted(record):
                    yield record


def last_places(records: Iterable[Record]) -> Places:
    """The last offset of each partition among the records."""
    found = dict[int, int]()
    for record in records:
        found[record.partition] = max(record.offset, found.get(record.partition, -1))
    return found


def _is_own(entry: ConfigEntry) -> bool:
    # a number, or the name's own value
    return ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG


def _is_behind(place: Any, topic: str, behind: Places) -> bool:
    return bool(place.topic == topic and 0 <= place.offset < behind.get(place.partition, 0))
