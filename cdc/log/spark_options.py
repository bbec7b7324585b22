"""How Spark's Kafka source reaches the log: options beside the one place that needs them."""

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
    """Options of every read: committed records only, and nothing lost in silence."""
    return {
        **cluster_options(log),
        "kafka.isolation.level": "read_committed",
        # else what retention has taken away is passed over with a warning
        "failOnDataLoss": "true",
    }


def batch_options(log: LogSettings, start: Offsets, until: Offsets) -> dict[str, str]:
    """Options of a batch read of [start, until), per topic and partition.

    One group for all of them, though nothing is committed: Spark keeps consumers by group and partition, and without a
    name makes a group anew with each read, of which it keeps the parameters for ever.
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
    """Options of a stream of a topic's one partition from `offset`, at most `most` offsets a batch."""
    return {
        **read_options(log),
        "assign": json.dumps({topic: [0]}),
        "startingOffsets": _as_text({topic: {0: offset}}),
        "maxOffsetsPerTrigger": str(most),
    }


def cluster_options(log: LogSettings) -> dict[str, str]:
    """Options that any of Spark's Kafka readers and writers needs."""
    options = {"kafka.bootstrap.servers": log.bootstrap, "kafka.security.protocol": log.security_protocol}
    if log.sasl_mechanism and log.username and log.password:
        module = _LOGIN_MODULES[log.sasl_mechanism]
        login = f'username="{_escape(log.username)}" password="{_escape(log.password.get_secret_value())}"'
        options["kafka.sasl.mechanism"] = log.sasl_mechanism
        options["kafka.sasl.jaas.config"] = f"{module} required {login};"
    if log.ca_file:
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": log.ca_file}
    return options


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _as_text(offsets: Mapping[str, Mapping[int, int]]) -> str:
    return json.dumps({t: {str(p): offset for p, offset in parts.items()} for t, parts in offsets.items()})
