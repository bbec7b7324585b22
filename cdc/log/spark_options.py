"""Options for Spark's Kafka source and sink."""

import json
from collections.abc import Mapping

from cdc.core.position import Offsets
from cdc.log.settings import LogSettings

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def read_options(log: LogSettings) -> dict[str, str]:
    """Options of every read: committed records only, and an error for lost ones."""
    return {
        **cluster_options(log),
        "kafka.isolation.level": "read_committed",
        # else Spark skips records that retention has deleted, with a warning only
        "failOnDataLoss": "true",
    }


def batch_options(log: LogSettings, start: Offsets, until: Offsets) -> dict[str, str]:
    """Options of a batch read of start ≤ offset < until, per topic and partition.

    All reads have one group, though nothing is committed: Spark caches consumers by group and partition. Without a name
    it makes a new group for each read, and keeps its parameters for ever.
    """
    assigned = {topic: sorted(partitions) for topic, partitions in start.items()}
    return {
        **read_options(log),
        "kafka.group.id": f"cdc-{log.prefix}",
        "assign": json.dumps(assigned),
        "startingOffsets": _as_text(start),
        "endingOffsets": _as_text(until),
    }


def stream_options(log: LogSettings, topic: str, offset: int, most: int) -> dict[str, str]:
    """Options of a stream of a topic's only partition from `offset`, with at most `most` offsets in a batch."""
    return {
        **read_options(log),
        "assign": json.dumps({topic: [0]}),
        "startingOffsets": _as_text({topic: {0: offset}}),
        "maxOffsetsPerTrigger": str(most),
    }


def topic_options(log: LogSettings, topic: str, start: Mapping[int, int]) -> dict[str, str]:
    """Options of a stream of a whole topic from these offsets of its partitions, with the messages' headers.

    Partitions that are added while the stream runs, or rests, are read from their beginning.
    """
    return {
        **read_options(log),
        # Spark asks for partitions by an admin client, and assigns them itself: no consumer joins a group
        "subscribe": topic,
        "startingOffsets": _as_text({topic: start}),
        "includeHeaders": "true",
    }


def cluster_options(log: LogSettings) -> dict[str, str]:
    """Options of all Kafka readers and writers of Spark."""
    options = {"kafka.bootstrap.servers": log.bootstrap, "kafka.security.protocol": log.security_protocol}
    if log.sasl_mechanism and log.username and log.password:
        module = _LOGIN_MODULES[log.sasl_mechanism]
        login = f'username="{_escape(log.username)}" password="{_escape(log.password.get_secret_value())}"'
        options["kafka.sasl.mechanism"] = log.sasl_mechanism
        options["kafka.sasl.jaas.config"] = f"{module} required {login};"
    if log.ca_file:
        # Kafka's Java client expects a Java keystore by default; the file is PEM, as librdkafka wants it
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": log.ca_file}
    return options


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _as_text(offsets: Mapping[str, Mapping[int, int]]) -> str:
    return json.dumps({t: {str(p): offset for p, offset in parts.items()} for t, parts in offsets.items()})
