"""Blocking a key and replaying its messages ends as if all had been readable."""

from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import DecodedBatch, Ranks, TableChanges
from cdc.columns.netting.blocked_keys import BlockedKeys
from cdc.columns.netting.changes import Messages, RefusedMessage
from cdc.columns.netting.ends import Ends, to_columns
from cdc.columns.netting.net_changes import NetChanges
from cdc.core.position import Lsn
from cdc.core.refusal import Refusal
from cdc.core.transaction import TransactionEnd
from cdc.sinks.lake.apply.replay import MISSING_VALUES, plan_replay
from cdc.sinks.lake.metadata.dead_letters import DeadLetter
from tests.support.debezium import PLACEHOLDER, as_messages, messages
from tests.support.examples import examples
from tests.support.histories import THINGS, Sent, histories
from tests.support.model import Change, Key, Row, Truncate
from tests.support.model_changes import applied, bits_of

COPY: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": "x" * n} for n in range(3)}
DECODER = Decoder(THINGS, PLACEHOLDER)
SPOILED = b'{"op":"u","source":{"txId":'
END = 1_000
"""Behind all transactions of a history."""


def together(partitions: list[Messages]) -> Messages:
    """All partitions' messages, as a topic's reader gets them."""
    fields = ("topic", "partition", "offset", "key", "value", "old_key", "moves_on")
    rows = [
        {name: own.topic if name == "topic" else getattr(own, name)[at] for name in fields}
        for own in partitions
        for at in range(len(own))
    ]
    return as_messages(rows)


def ends_of(history: list[Sent]) -> Ends:
    ranks = [sent.changes[0].place.rank for sent in history]
    return to_columns(TransactionEnd(rank, rank, Lsn(rank), 0, {"public.things": 1}) for rank in ranks)


def batch_of(messages: Messages, run: Ends) -> DecodedBatch:
    decoded = DECODER.decode(messages)
    ranks = Ranks.of(run).places(decoded.changes.tx_id)
    return DecodedBatch(run, {THINGS.name: TableChanges(decoded.changes, ranks, decoded.refused, messages, decoded.at)})


def on_rows(rows: dict[Key, Row], net: NetChanges) -> dict[Key, Row]:
    """Rows after an effect that does not know which of them existed."""
    there = set(bits_of(THINGS, list(rows)).pairs())
    return applied(THINGS, rows, replace(net, existed=np.array([key in there for key in net.keys.pairs()], np.bool_)))


@examples(200)
@given(histories(COPY), st.integers(0, 100), st.integers(1, 3), st.integers(0, 8))
def test_blocking_and_replaying_equals_applying_at_once(
    history: list[Sent], spoiled: int, partitions: int, cut: int
) -> None:
    changes: list[Change] = [change for sent in history for change in sent.changes]
    assume(changes and not any(isinstance(change, Truncate) for change in changes))
    sound, run = together(messages(THINGS, changes, partitions)), ends_of(history)
    at = spoiled % len(changes)
    values = [SPOILED if place == at else value for place, value in enumerate(sound.value)]
    # two batches: the second one must respect keys blocked by the first
    rows, held, letters = dict(COPY), dict[bytes, int](), list[DeadLetter]()
    for batch in (run.slice(0, cut), run.slice(cut, len(run))):
        spoiled_messages = _take(replace(sound, value=values), np.isin(_ranks(sound), batch.offset))
        part = batch_of(spoiled_messages, batch)
        letters += [_letter(message, sound) for message in part.take(THINGS, -1, held).refused]
        # killed between its letters and the table, it comes again, and does the same
        again = _blocked_keys(letters)
        # nothing of it may be applied before, not even where its keys are given up meanwhile
        assert _comes_before_its_batch(letters, batch, again) == []
        assert _outcome(part, again, rows) == _outcome(part, held, rows)
        rows, held = on_rows(rows, part.take(THINGS, -1, held).effect().net), again
    done = plan_replay(THINGS, [_repair(letter, sound) for letter in letters], END, DECODER)
    assert not done.blocked
    after_all = on_rows(rows, done.effect.net) if done.effect else rows
    assert after_all == history[-1].rows
    # its readable letters may come first
    some = plan_replay(THINGS, letters, END, DECODER)
    assert some.blocked
    rest = [_repair(letter, sound) for letter in letters if letter not in some.letters]
    then = plan_replay(THINGS, rest, END, DECODER)
    first = on_rows(rows, some.effect.net) if some.effect else rows
    assert (on_rows(first, then.effect.net) if then.effect else first) == history[-1].rows
    # given up: waiting letters are applied, except for rows that lack values which only the spoiled message may have
    # had
    given = plan_replay(THINGS, letters, END, DECODER, held)
    assert set(given.blocked.values()) <= {MISSING_VALUES}


def _comes_before_its_batch(letters: list[DeadLetter], batch: Ends, given_up: BlockedKeys) -> list[DeadLetter]:
    """The letters that a replay would apply before their batch."""
    before = int(batch.offset[0]) - 1 if len(batch) else END
    return [
        letter for letter in plan_replay(THINGS, letters, before, DECODER, given_up).letters if letter.rank > before
    ]


def _outcome(batch: DecodedBatch, held: BlockedKeys, rows: dict[Key, Row]) -> tuple[set[Refusal], dict[Key, Row]]:
    part = batch.take(THINGS, -1, held)
    return {message.refusal for message in part.refused}, on_rows(rows, part.effect().net)


def _blocked_keys(letters: list[DeadLetter]) -> dict[bytes, int]:
    """As `DeadLetters` caches them."""
    places = [(letter.message.key, letter.message.refusal.offset) for letter in letters]
    return {key: min(offset for own, offset in places if own == key) for key, _ in places if key is not None}


def _places(sound: Messages) -> dict[tuple[int, int], int]:
    pairs = zip(sound.partition.tolist(), sound.offset.tolist(), strict=True)
    return {pair: at for at, pair in enumerate(pairs)}


def _ranks(sound: Messages) -> list[int]:
    """The transaction of every message, the spoiled one included."""
    return [int(tx_id) for tx_id in DECODER.decode(sound).changes.tx_id]


def _take(messages: Messages, own: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> Messages:
    at = np.flatnonzero(own)
    keys, old_keys = ([column[place] for place in at.tolist()] for column in (messages.key, messages.old_key))
    values = [messages.value[place] for place in at.tolist()]
    return Messages(
        messages.topic, messages.partition[at], messages.offset[at], keys, values, old_keys, messages.moves_on[at]
    )


def _letter(message: RefusedMessage, sound: Messages) -> DeadLetter:
    place = _places(sound)[message.refusal.partition, message.refusal.offset]
    return DeadLetter("id", THINGS.name, message, _ranks(sound)[place])


def _repair(letter: DeadLetter, sound: Messages) -> DeadLetter:
    refusal = letter.message.refusal
    value = sound.value[_places(sound)[refusal.partition, refusal.offset]]
    return replace(letter, message=replace(letter.message, value=value))
