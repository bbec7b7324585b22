"""Replay dead letters: a key's messages, in order, become one change of its row."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import TableEffect
from cdc.columns.netting.changes import Decoded, Messages, Op
from cdc.columns.netting.net_changes import NetChanges, fold
from cdc.columns.rows.key_fingerprints import empty_keys
from cdc.core.table import Table
from cdc.sinks.lake.metadata.dead_letters import DeadLetter

MISSING_VALUES = "a later change left values unsent that a dropped message may have had"
BATCH_PENDING = "its batch is not applied yet: run `cdc follow` first, with `on_refusal: hold`"


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The letters that can be applied, and their effect on the table.

    `blocked`: the keys that stay blocked, each with the reason.
    """

    letters: Sequence[DeadLetter]
    effect: TableEffect | None
    blocked: dict[bytes, str]


def plan_replay(
    table: Table, letters: Sequence[DeadLetter], reached: int, decoder: Decoder, given_up: Collection[bytes] = ()
) -> ReplayPlan:
    """Decode a table's letters again, and fold those of every key whose letters are all readable.

    The table must be complete up to the END at offset `reached`. Letters are stored before their batch is applied. A
    letter of a later batch must wait, else it would overtake the changes between. Unreadable letters of keys in
    `given_up` are dropped. If a row then misses a value that no later change sent, its key stays blocked.
    """
    blocked = {
        letter.message.key: BATCH_PENDING
        for letter in letters
        if letter.message.key is not None and letter.rank > reached
    }
    _spread_blocks(letters, blocked)
    own, decoded = _decode_readable(letters, blocked, decoder, given_up)
    if not len(decoded.changes):
        return ReplayPlan(own, None, blocked)
    net = _net_effect(decoded, own)
    unknown = _find_incomplete(net, decoded, own) & set(given_up)
    # plan again without these keys, since their letters are no longer part of the fold
    if unknown:
        lacking = dict.fromkeys(unknown, MISSING_VALUES)
        _spread_blocks(own, lacking)
        plan = plan_replay(
            table, [letter for letter in letters if letter.message.key not in lacking], reached, decoder, given_up
        )
        return replace(plan, blocked={**blocked, **plan.blocked, **lacking})
    return ReplayPlan(own, TableEffect(net), blocked)


def _decode_readable(
    letters: Sequence[DeadLetter], blocked: dict[bytes, str], decoder: Decoder, given_up: Collection[bytes]
) -> tuple[list[DeadLetter], Decoded]:
    """Decode the letters of keys that are not blocked; adds the keys of unreadable ones to `blocked`."""
    # until stable: an unreadable key blocks the keys that it exchanged rows with, whose letters then leave the fold
    while True:
        own = [letter for letter in letters if letter.message.key is not None and letter.message.key not in blocked]
        decoded = decoder.decode(_to_messages(own))
        for refused in decoded.refused:
            if refused.key is not None and refused.key not in given_up:
                blocked[refused.key] = refused.refusal.reason
        _spread_blocks(own, blocked)
        if not blocked.keys() & {letter.message.key for letter in own}:
            return own, decoded


def _spread_blocks(letters: Sequence[DeadLetter], blocked: dict[bytes, str]) -> None:
    """Block both keys of a row that changed its key when one of them is blocked: they replay together."""
    pairs = [(letter.message.key, letter.message.old_key) for letter in letters if letter.message.old_key is not None]
    linked = [(key, old) for key, old in pairs if key is not None and old is not None]
    while more := [pair for pair in linked if len(blocked.keys() & set(pair)) == 1]:
        for key, old in more:
            reason = blocked.get(key) or blocked[old]
            blocked[key] = blocked[old] = reason


def _net_effect(decoded: Decoded, letters: Sequence[DeadLetter]) -> NetChanges:
    """The letters' net effect on rows that may or may not exist: dropped messages may have inserted or deleted them."""
    changes = decoded.changes
    # an insert becomes an update: the row may exist, as dropped messages may have inserted it
    comes_anew = (changes.op == Op.CREATE) & ~changes.has_former
    op = np.where(comes_anew, np.uint8(Op.UPDATE), changes.op)
    net = fold(replace(changes, op=op), np.array([letters[at].rank for at in decoded.at.tolist()], np.int64))
    # "existed", or the commit would take a row that is there for a contradiction
    return replace(net, existed=np.ones(len(net.existed), np.bool_), passing=empty_keys())


def _find_incomplete(net: NetChanges, decoded: Decoded, letters: Sequence[DeadLetter]) -> set[bytes]:
    """The keys of rows that take values from the lake's row."""
    bits = decoded.changes.keys
    names = dict(zip(zip(bits.high.tolist(), bits.low.tolist(), strict=True), decoded.at.tolist(), strict=True))
    rows = net.keys.take(np.flatnonzero(net.incomplete))
    positions = (names[at] for at in zip(rows.high.tolist(), rows.low.tolist(), strict=True))
    return {key for at in positions if (key := letters[at].message.key) is not None}


def _to_messages(letters: Sequence[DeadLetter]) -> Messages:
    messages = [letter.message for letter in letters]
    return Messages(
        messages[0].refusal.topic if messages else "",
        np.array([message.refusal.partition for message in messages], np.int64),
        np.array([message.refusal.offset for message in messages], np.int64),
        [message.key for message in messages],
        [message.value for message in messages],
        [message.old_key for message in messages],
        np.array([message.moves_on for message in messages], np.bool_),
    )
