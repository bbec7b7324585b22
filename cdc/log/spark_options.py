"""Options for Spark's Kafka source and sink."""

import json
from collections.abc import Mapping

from cdc.core.position import Offsets
from cdc.log.logins import java_options
from cdc.log.settings import LogSettings


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
    return {f"kafka.{name}": value for name, value in {"bootstrap.servers": log.bootstrap, **java_options(log)}.items()}


def _as_text(offsets: Mapping[str, Mapping[int, int]]) -> str:
    return json.dumps({t: {str(p): offset for p, offset in parts.items()} for t, parts in offsets.items()})
