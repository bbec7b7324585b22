"""Which changes have to wait: those of a key of which an earlier message could not be read.

A key's messages are in one partition, and so in order: what lies behind such a message waits, what lies before does
not. A row that comes from a held key by a changed key waits as well, and with it all that follows under its new one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from cdc.columns.changes import Decoded, Messages, RefusedMessage
from cdc.core.refusal import Refusal

WAITS = "waits behind an earlier message of its key"


@dataclass(frozen=True, slots=True)
class Parted:
    """What can be applied, and all keys that are held now; those that wait are among the refused."""

    decoded: Decoded
    held: frozenset[bytes]


def parted(messages: Messages, decoded: Decoded, held: Collection[bytes]) -> Parted:
    """Take out of decoded messages what waits behind refused ones among them, or for keys that are held already.

    Keys are those of the messages, as bytes.
    """
    since = {each.key: each.refusal.offset for each in reversed(decoded.refused) if each.key is not None}
    since |= dict.fromkeys(held, -1)
    if not since:
        return Parted(decoded, frozenset())
    waiting: set[int] = set()
    # until no further key comes: a changed key leads from partition to partition, in no order
    while found := _waiting(messages, decoded.at.tolist(), since) - waiting:
        waiting |= found
    stay = np.array([at not in waiting for at in decoded.at.tolist()], np.bool_)
    kept = np.flatnonzero(stay)
    refused = [_waits(messages, decoded, place) for place in np.flatnonzero(~stay).tolist()]
    left = Decoded(decoded.changes.take(kept), decoded.at[kept], (*decoded.refused, *refused))
    return Parted(left, frozenset(since))


def _waiting(messages: Messages, places: Sequence[int], since: dict[bytes, int]) -> set[int]:
    """The places of the messages that wait; their keys are held from there on."""
    found = set()
    for at in places:
        key, old_key, offset = messages.key[at], messages.old_key[at], int(messages.offset[at])
        if key is not None and (since.get(key, offset) < offset or (old_key is not None and old_key in since)):
            since.setdefault(key, offset)
            found.add(at)
    return found


def _waits(messages: Messages, decoded: Decoded, place: int) -> RefusedMessage:
    at, changes = int(decoded.at[place]), decoded.changes
    refusal = Refusal(messages.topic, int(messages.partition[at]), int(messages.offset[at]), WAITS, waits=True)
    return messages.refused(at, refusal, int(changes.tx_id[place]), int(changes.total_order[place]))
