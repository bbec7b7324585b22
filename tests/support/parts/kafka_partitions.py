"""Partitions that somebody adds to a topic of a running pipeline."""

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from cdc.connect.capture.connect_client import ConnectClient
from tests.support.parts.pipelines import Pipeline


def add_partitions(pipeline: Pipeline, topic: str, count: int) -> None:
    """The topic has `count` partitions, and the capture writes to all of them."""
    settings = pipeline.settings
    client = AdminClient({"bootstrap.servers": settings.log.bootstrap})
    for added in client.create_partitions([NewPartitions(topic, count)]).values():
        added.result()
    with ConnectClient(settings.connect.url) as connect:
        # a producer hears of them within five minutes by itself
        connect.restart(settings.connect.connector, whole=True)
