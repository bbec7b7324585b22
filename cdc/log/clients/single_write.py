"""Writes one record, outside of transactions."""

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdc.core.errors import UnreachableError
from cdc.core.waiting import Deadline
from cdc.log.clients.connection import Connection
from cdc.log.settings import LogSettings

WRITE_SECONDS = 30.0
FLUSH_SECONDS = 1.0


def write_record(log: LogSettings, topic: str, key: bytes, value: bytes) -> None:
    """Write a record to a topic's first partition; it is there for every reader when this returns.

    Raises UnreachableError when no broker answers within WRITE_SECONDS, PreconditionError when one refuses it.
    """
    connection, failures = Connection(log), list[KafkaError]()

    def note(error: KafkaError | None, _: Message) -> None:
        if error:
            failures.append(error)

    with connection.translate_errors():
        options = {"acks": "all", "delivery.timeout.ms": round(WRITE_SECONDS * 1000), "on_delivery": note}
        producer = Producer({**connection.options(), **options})
        connection.attach(producer)
        producer.produce(topic, value, key, 0)
        deadline = Deadline(2 * WRITE_SECONDS)
        while (left := producer.flush(FLUSH_SECONDS)) and not deadline.is_past:
            connection.settle_login()
        if failures:
            raise KafkaException(failures[0])
    if left:
        raise UnreachableError(f"Kafka {log.bootstrap} takes no record of {topic}", "is every broker running?")
