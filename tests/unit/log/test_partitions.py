"""Questions to the cluster: those that it cannot answer yet are asked again, those that it refuses are not."""

from unittest.mock import Mock, patch

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from cdc.core.errors import PreconditionError
from cdc.log.clients.partitions import LogPartition, Partitions
from cdc.log.settings import LogSettings

PLACE = LogPartition("t", 0)


def kafka_failure(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def ask_for_end(*answers: object) -> tuple[dict[LogPartition, int], Mock]:
    """What is said of the partition's end by a cluster that answers so."""
    consumer = Mock(**{"offsets_for_times.side_effect": answers, "assignment.return_value": []})
    with patch("cdc.log.clients.partitions.Consumer", return_value=consumer):
        return Partitions(LogSettings(bootstrap="b:1", prefix="p")).ends([PLACE]), consumer


def test_a_partition_without_a_leader_is_asked_for_again() -> None:
    found, consumer = ask_for_end(
        kafka_failure(KafkaError.NOT_LEADER_FOR_PARTITION),
        kafka_failure(KafkaError.LEADER_NOT_AVAILABLE),
        [TopicPartition("t", 0, 7)],
    )
    assert found == {PLACE: 7}
    assert consumer.offsets_for_times.call_count == 3


@pytest.mark.parametrize(("partitions", "found"), [({}, {}), ({0: None}, None)], ids=["deleted", "there"])
def test_a_topic_that_is_deleted_meanwhile_has_no_partitions(
    partitions: dict[int, None], found: dict[LogPartition, int] | None
) -> None:
    unknown = kafka_failure(KafkaError.UNKNOWN_TOPIC_OR_PART)
    consumer = Mock(**{"offsets_for_times.side_effect": unknown, "assignment.return_value": []})
    consumer.list_topics.return_value.topics = {"t": Mock(partitions=partitions)}
    with patch("cdc.log.clients.partitions.Consumer", return_value=consumer):
        asked = Partitions(LogSettings(bootstrap="b:1", prefix="p"))
    if found is not None:
        assert asked.ends([PLACE]) == found
        return
    with pytest.raises(PreconditionError, match="no such topic"):
        asked.ends([PLACE])


def test_a_refusal_is_told_at_once() -> None:
    with pytest.raises(PreconditionError, match="refused a request"):
        ask_for_end(kafka_failure(KafkaError.TOPIC_AUTHORIZATION_FAILED), [TopicPartition("t", 0, 7)])
