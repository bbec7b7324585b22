"""Dead letters applied after all: a key's messages in their order, as one change of its row."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import TableEffect
from cdc.columns.netting.changes import Decoded, Messages, Op
from cdc.columns.netting.net_changes import NetChanges, fold
from cdc.core.table import Table
from sinks.lake.metadata.dead_letters import DeadLetter

LACKS = "a later change left values unsent that a dropped message may have had"
AHEAD = "its batch is not applied yet: run `cdc follow` first, with `on_refusal: hold`"


@dataclass(frozen=True, slots=True)
class Replay:
    """What some letters come to: `letters` are those that can be applied, and `effect` what they do to the table.

    `stay`: the keys that stay held, each with the reason.
    """

    letters: Sequence[DeadLetter]
    effect: TableEffect | None
    stay: dict[bytes, str]


def replay(
    table: Table, letters: Sequence[DeadLetter], reached: int, decoder: Decoder, given_up: Collection[bytes] = ()
) -> Replay:
    """Read a table's letters again, and fold those of every key of which all can be read.

    The table has every transaction up to the END at the offset `reached`. Letters are kept before their batch is
    applied: of one that is still to come, they would be applied before what lies between. Of keys that are `given_up`,
    what cannot be read is left out; a row that then lacks a value which nobody sent since is one that nobody knows, so
    such a key stays.
    """
    stay = {each.message.key: AHEAD for each in letters if each.message.key is not None and each.rank > reached}
    _stay_together(letters, stay)
    while True:
        own = [each for each in letters if each.message.key is not None and each.message.key not in stay]
        decoded = decoder.decode(_messages(own))
        for refused in decoded.refused:
            if refused.key is not None and refused.key not in given_up:
                stay[refused.key] = refused.refusal.reason
        _stay_together(own, stay)
        if not stay.keys() & {each.message.key for each in own}:
            break
    if not len(decoded.changes):
        return Replay(own, None, stay)
    net = _net(decoded, own)
    unknown = _lacking(net, decoded, own) & set(given_up)
    if unknown:
        lacking = dict.fromkeys(unknown, LACKS)
        _stay_together(own, lacking)
        found = replay(table, [each for each in letters if each.message.key not in lacking], reached, decoder, given_up)
        return replace(found, stay={**stay, **found.stay, **lacking})
    return Replay(own, TableEffect(net), stay)


def _stay_together(letters: Sequence[DeadLetter], stay: dict[bytes, str]) -> None:
    """Let rows stay that come from a key that stays, or go on as one: they are applied in one piece."""
    pairs = [(each.message.key, each.message.old_key) for each in letters if each.message.old_key is not None]
    linked = [(key, old) for key, old in pairs if key is not None and old is not None]
    while more := [pair for pair in linked if len(stay.keys() & set(pair)) == 1]:
        for key, old in more:
            reason = stay.get(key) or stay[old]
            stay[key] = stay[old] = reason


def _net(decoded: Decoded, letters: Sequence[DeadLetter]) -> NetChanges:
    """What the letters do to rows of which nobody knows whether they are there: what was dropped may have brought them,
    or taken them away."""
    changes = decoded.changes
    comes_anew = (changes.op == Op.CREATE) & ~changes.has_former
    op = np.where(comes_anew, np.uint8(Op.UPDATE), changes.op)
    net = fold(replace(changes, op=op), np.array([letters[at].rank for at in decoded.at.tolist()], np.int64))
    return replace(net, existed=np.ones(len(net.existed), np.bool_))


def _lacking(net: NetChanges, decoded: Decoded, letters: Sequence[DeadLetter]) -> set[bytes]:
    """The keys of rows that take values from the row that the lake has."""
    bits = decoded.changes.keys
    names = dict(zip(zip(bits.high.tolist(), bits.low.tolist(), strict=True), decoded.at.tolist(), strict=True))
    rows = net.keys.take(np.flatnonzero(net.incomplete))
    found = (names[at] for at in zip(rows.high.tolist(), rows.low.tolist(), strict=True))
    return {key for at in found if (key := letters[at].message.key) is not None}


def _messages(letters: Sequence[DeadLetter]) -> Messages:
    all_of = [letter.message for letter in letters]
    return Messages(
        all_of[0].refusal.topic if all_of else "",
        np.array([each.refusal.partition for each in all_of], np.int64),
        np.array([each.refusal.offset for each in all_of], np.int64),
        [each.key for each in all_of],
        [each.value for each in all_of],
        [each.old_key for each in all_of],
        np.array([each.moves_on for each in all_of], np.bool_),
    )
