"""What librdkafka gives, as columns."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from confluent_kafka import Message

from cdc.columns.netting.changes import Messages

OLD_KEY_HEADER: Final = "__debezium.oldkey"
NEW_KEY_HEADER: Final = "__debezium.newkey"
"""On the create, and on the delete before it, that a changed key causes (Debezium, "Primary key updates")."""


def to_messages(topic: str, found: Sequence[Message]) -> Messages:
    """Messages of a topic that are no tombstones."""
    # librdkafka's types leave open what messages that were read always have
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
