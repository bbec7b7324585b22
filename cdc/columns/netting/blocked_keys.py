"""Blocked keys: after a message of a key cannot be decoded, later changes of that key wait.

All messages of a key are in one partition, in order: later ones wait, earlier ones do not. If an update moves a row
from a blocked key to another key, the new key is blocked, too. The old row then stays under its old key: the waiting
message needs its unsent values.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from cdc.columns.netting.changes import Decoded, Messages, RefusedMessage
from cdc.core.refusal import Refusal

WAITS = "waits behind an earlier message of its key"

BlockedKeys = Mapping[bytes, int]
"""Key bytes as in the log → the first offset (of the key's partition) that waits.

Earlier offsets are applied, even when a batch is repeated that was killed after its dead letters and before its tables.
"""


def split_blocked(messages: Messages, decoded: Decoded, blocked: BlockedKeys) -> Decoded:
    """Move changes of blocked keys to the refused: keys of a refused message in `decoded`, and keys in `blocked`.

    Five messages, of which the first is refused; the second and the third are an update of key 1 to 2:

        partition 0: key 1, refused │ key 1, deleted, moves on  both wait: key 1 is blocked from the first on
        partition 1: key 2, created from key 1 │ key 2, updated  both wait: key 1 is blocked, so key 2 is, too
        partition 2: key 3, updated                              applied
    """
    # a message of the key waits if its offset is above this one
    since = {key: first - 1 for key, first in blocked.items()}
    for message in decoded.refused:
        if message.key is not None:
            since[message.key] = min(message.refusal.offset, since.get(message.key, message.refusal.offset))
    if not since:
        return decoded
    places = decoded.at.tolist()
    leaving = _find_moves(messages, places)
    for message in decoded.refused:
        _block_source(message.old_key, leaving, since)
    waiting: set[int] = set()
    # to the fixed point: a changed key leads to another partition, and messages have no order across partitions
    while more := _find_waiting(messages, places, leaving, since) - waiting:
        waiting |= more
    is_applied = np.array([at not in waiting for at in places], np.bool_)
    applied = np.flatnonzero(is_applied)
    refused = [_to_waiting(messages, decoded, place) for place in np.flatnonzero(~is_applied).tolist()]
    return Decoded(decoded.changes.take(applied), decoded.at[applied], (*decoded.refused, *refused))


def _find_moves(messages: Messages, places: Sequence[int]) -> dict[bytes, int]:
    """Find the old keys of key updates, each with the offset of the first such delete."""
    moves: dict[bytes, int] = {}
    for at in places:
        key = messages.key[at]
        if messages.moves_on[at] and key is not None:
            moves[key] = min(int(messages.offset[at]), moves.get(key, int(messages.offset[at])))
    return moves


def _block_source(old_key: bytes | None, leaving: dict[bytes, int], since: dict[bytes, int]) -> None:
    """Block the old key of a waiting row from its delete on: the old row has the unsent values."""
    if old_key is not None and old_key in leaving:
        # `since` is the last offset that is applied: the delete itself waits, too
        since[old_key] = min(leaving[old_key] - 1, since.get(old_key, leaving[old_key]))


def _find_waiting(
    messages: Messages, places: Sequence[int], leaving: dict[bytes, int], since: dict[bytes, int]
) -> set[int]:
    """Find the places of waiting messages, and block their keys from there on."""
    waiting = set()
    for at in places:
        key, old_key, offset = messages.key[at], messages.old_key[at], int(messages.offset[at])
        # the default is the offset itself, so a key that is not blocked does not wait
        if key is not None and (since.get(key, offset) < offset or (old_key is not None and old_key in since)):
            since[key] = min(since.get(key, offset), offset)
            _block_source(old_key, leaving, since)
            waiting.add(at)
    return waiting


def _to_waiting(messages: Messages, decoded: Decoded, place: int) -> RefusedMessage:
    at, changes = int(decoded.at[place]), decoded.changes
    refusal = Refusal(messages.topic, int(messages.partition[at]), int(messages.offset[at]), WAITS, waits=True)
    return messages.refuse(at, refusal, int(changes.tx_id[place]), int(changes.number[place]))
