"""Converts librdkafka's messages to columns."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from confluent_kafka import Message

from cdc.columns.netting.changes import Messages

OLD_KEY_HEADER: Final = "__debezium.oldkey"
NEW_KEY_HEADER: Final = "__debezium.newkey"
"""Headers of the create, and of the delete before it, of a key update (Debezium, "Primary key updates")."""


def to_messages(topic: str, found: Sequence[Message]) -> Messages:
    """Convert messages of a topic, none of which is a tombstone."""
    # Any: librdkafka's types allow None for fields that read messages always have
    own: Sequence[Any] = found
    headers = [dict(sent) if (sent := message.headers()) else {} for message in own]
    return Messages(
        topic,
        np.array([message.partition() for message in own], np.int64),
        np.array([message.offset() for message in own], np.int64),
        [message.key() for message in own],
        [message.value() for message in own],
        [sent.get(OLD_KEY_HEADER) for sent in headers],
        np.array([NEW_KEY_HEADER in sent for sent in headers], np.bool_),
    )
