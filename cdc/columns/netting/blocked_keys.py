"""Which changes have to wait: those of a key of which an earlier message could not be read.

A key's messages are in one partition, and so in order: what lies behind such a message waits, what lies before does
not. A row that comes from a held key by a changed key waits as well, and with it all that follows under its new one;
and what a held row comes from stays where it is, since values that were not sent again are there.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from cdc.columns.netting.changes import Decoded, Messages, RefusedMessage
from cdc.core.refusal import Refusal

WAITS = "waits behind an earlier message of its key"

BlockedKeys = Mapping[bytes, int]
"""Keys whose changes wait, as the log has them, each with the offset of its partition from which on they do: what lies
before is applied, also when a batch that was killed between its letters and its tables comes again."""


def split_blocked(messages: Messages, decoded: Decoded, held: BlockedKeys) -> Decoded:
    """Take out of decoded messages what waits behind refused ones among them, or because its key is held already; it
    is with the refused then."""
    # a message waits if it lies behind this offset
    since = {key: first - 1 for key, first in held.items()}
    for each in decoded.refused:
        if each.key is not None:
            since[each.key] = min(each.refusal.offset, since.get(each.key, each.refusal.offset))
    if not since:
        return decoded
    places = decoded.at.tolist()
    leaving = _find_moves(messages, places)
    for each in decoded.refused:
        _hold_source(each.old_key, leaving, since)
    waiting: set[int] = set()
    # until no further key comes: a changed key leads from partition to partition, in no order
    while found := _find_waiting(messages, places, leaving, since) - waiting:
        waiting |= found
    stay = np.array([at not in waiting for at in decoded.at.tolist()], np.bool_)
    kept = np.flatnonzero(stay)
    refused = [_to_waiting(messages, decoded, place) for place in np.flatnonzero(~stay).tolist()]
    return Decoded(decoded.changes.take(kept), decoded.at[kept], (*decoded.refused, *refused))


def _find_moves(messages: Messages, places: Sequence[int]) -> dict[bytes, int]:
    """The keys that rows leave by a change of their key, each with the offset at which the first one does."""
    found: dict[bytes, int] = {}
    for at in places:
        key = messages.key[at]
        if messages.moves_on[at] and key is not None:
            found[key] = min(int(messages.offset[at]), found.get(key, int(messages.offset[at])))
    return found


def _hold_source(old_key: bytes | None, leaving: dict[bytes, int], since: dict[bytes, int]) -> None:
    """Hold the key that a held row comes from, as long as the row is there: it has the values that were not sent."""
    if old_key is not None and old_key in leaving:
        since[old_key] = min(leaving[old_key] - 1, since.get(old_key, leaving[old_key]))


def _find_waiting(
    messages: Messages, places: Sequence[int], leaving: dict[bytes, int], since: dict[bytes, int]
) -> set[int]:
    """The places of the messages that wait; their keys are held from there on."""
    found = set()
    for at in places:
        key, old_key, offset = messages.key[at], messages.old_key[at], int(messages.offset[at])
        if key is not None and (since.get(key, offset) < offset or (old_key is not None and old_key in since)):
            since[key] = min(since.get(key, offset), offset)
            _hold_source(old_key, leaving, since)
            found.add(at)
    return found


def _to_waiting(messages: Messages, decoded: Decoded, place: int) -> RefusedMessage:
    at, changes = int(decoded.at[place]), decoded.changes
    refusal = Refusal(messages.topic, int(messages.partition[at]), int(messages.offset[at]), WAITS, waits=True)
    return messages.refuse(at, refusal, int(changes.tx_id[place]), int(changes.total_order[place]))
