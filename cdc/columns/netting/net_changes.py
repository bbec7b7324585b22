"""A batch of one table's changes in, its net effect a key out.

Log compaction does the same to a topic (*Designing Data-Intensive Applications*, ch. 11): of many values of a key, the
last. What it cannot do is here: values that were not sent, rows whose key changed, and TRUNCATE. `cdc.core.model` says
what the effect has to be.

A key's changes fall into lives, each beginning with a create. Only the last life of a key counts; an older one matters
when its row went on under another key without its unsent values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.columns.arrays import Integers, Mask
from cdc.columns.netting.changes import Changes, Op
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys, empty_keys
from cdc.columns.values.arrow_types import arrow_schema
from cdc.core.table import Table

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class NetChanges:
    """What a batch does to a table.

    When `truncated`, every row from before the batch is gone first. `rows` are those that keys end with, whole but for
    the values that `unsent` marks, column by column: these are the values of the row that `base` had before the batch
    (null where `has_base` is false: there was none). `existed`: the key had a row before the batch. `gone` are keys
    that had a row and end without one.
    """

    truncated: bool
    keys: KeyBits
    rows: pa.Table
    existed: Mask
    unsent: dict[str, Mask]
    base: KeyBits
    has_base: Mask
    gone: KeyBits
    gone_columns: pa.Table

    @property
    def is_empty(self) -> bool:
        return not (self.truncated or len(self.keys) or len(self.gone))

    @property
    def incomplete(self) -> Mask:
        """Which rows lack a value."""
        lacking = np.zeros(len(self.keys), np.bool_)
        for mask in self.unsent.values():
            lacking |= mask
        return lacking

    def borrows(self) -> bool:
        """Does some row take values from another key's row?"""
        elsewhere = (self.base.high != self.keys.high) | (self.base.low != self.keys.low)
        return bool((self.incomplete & self.has_base & elsewhere).any())

    def only(self, rows: Mask, *, gone: bool) -> "NetChanges":
        """Some of the rows, with or without what is gone."""
        kept = slice(None) if gone else slice(0)
        at = np.flatnonzero(rows)
        return NetChanges(
            self.truncated,
            self.keys.take(at),
            self.rows.take(at),
            self.existed[at],
            {name: mask[at] for name, mask in self.unsent.items() if mask[at].any()},
            self.base.take(at),
            self.has_base[at],
            KeyBits(self.gone.high[kept], self.gone.low[kept]),
            self.gone_columns if gone else self.gone_columns.slice(0, 0),
        )

    @classmethod
    def concat(cls, parts: "Sequence[NetChanges]") -> "NetChanges":
        """Effects on different keys as one; there is at least one, and none is of a TRUNCATE."""
        names = dict.fromkeys(name for part in parts for name in part.unsent)
        return cls(
            False,
            concat_keys([part.keys for part in parts]),
            pa.concat_tables([part.rows for part in parts]),
            np.concatenate([part.existed for part in parts]),
            {name: np.concatenate([part.unsent.get(name, part.existed & False) for part in parts]) for name in names},
            concat_keys([part.base for part in parts]),
            np.concatenate([part.has_base for part in parts]),
            concat_keys([part.gone for part in parts]),
            pa.concat_tables([part.gone_columns for part in parts]),
        )


def empty_net(table: Table) -> NetChanges:
    """The effect of no changes."""
    schema, keys, mask = arrow_schema(table), empty_keys(), np.empty(0, np.bool_)
    key_columns = pa.schema([schema.field(name) for name in table.key]).empty_table()
    return NetChanges(False, keys, schema.empty_table(), mask, {}, keys, mask, keys, key_columns)


def fold(changes: Changes, ranks: Integers) -> NetChanges:
    """Fold one table's changes, of whole transactions whose ENDs are at the offsets `ranks`, a rank a change.

    The changes may come in any order, and redelivered ones more than once.
    """
    ordered, truncated = sort_changes(changes, ranks)
    lives = _group_by_key(changes, ranks, ordered)
    final = lives.last_of_keys()
    ended = lives.op[final] == Op.DELETE
    # Postgres creates no key that it has: one that does not begin with a create had a row before the batch
    existed = lives.op[lives.first_of_key[final]] != Op.CREATE
    stay, gone = final[~ended], final[ended & existed]
    found = _trace_unsent(changes, lives, stay)
    return NetChanges(
        truncated,
        lives.keys.take(stay),
        _rows(changes, lives, stay, found.sent),
        existed[~ended] & (not truncated),
        {name: places == NOWHERE for name, places in found.sent.items() if (places == NOWHERE).any()},
        found.base,
        found.has_base & (not truncated),
        lives.keys.take(gone),
        changes.key_columns.take(lives.change[gone]),
    )


def sort_changes(changes: Changes, ranks: Integers) -> tuple[Integers, bool]:
    """The changes that count, in their total order: each once, and none from before the last TRUNCATE."""
    # lexsort goes by its last column first
    order = np.lexsort((changes.total_order, ranks))
    again = np.zeros(len(order), np.bool_)
    again[1:] = (np.diff(ranks[order]) == 0) & (np.diff(changes.total_order[order]) == 0)
    order = order[~again]
    truncates = np.flatnonzero(changes.op[order] == Op.TRUNCATE)
    return (order[truncates[-1] + 1 :], True) if len(truncates) else (order, False)


@dataclass(frozen=True, slots=True)
class _Lives:
    """The changes gathered by key, and in order within each key; every column is by the places of this gathering.

    `change` leads to the change. `first_of_key`, `first_of_life`: the place where the key, and the life, begins.
    `before`: the place of the change just before it in the total order, where that is the very one before it in the
    same transaction.
    """

    change: Integers
    op: npt.NDArray[np.uint8]
    keys: KeyBits
    first_of_key: Integers
    first_of_life: Integers
    before: Integers

    def last_of_keys(self) -> Integers:
        """The place of every key's last change."""
        if not len(self.change):
            return self.change
        return np.flatnonzero(np.append(self.first_of_key[1:] != self.first_of_key[:-1], True))

    def last_sent(self, unsent: Mask, at: Integers) -> Integers:
        """For changes at these places: the last change of the same life, up to them, that sent a value."""
        if not len(self.change):
            return at
        # a DELETE's columns are null without having been sent as nulls: it is passed over
        sent = ~unsent[self.change] & (self.op != Op.DELETE)
        found = np.maximum.accumulate(np.where(sent, np.arange(len(sent)), NOWHERE))[at]
        # the running maximum goes on over the borders of keys and lives: what is from before this life is not its own
        return np.where(found >= self.first_of_life[at], found, NOWHERE)


def _group_by_key(changes: Changes, ranks: Integers, ordered: Integers) -> _Lives:
    keys = changes.keys.take(ordered)
    # a stable order: within a key, changes stay in the total order that `ordered` has
    turns = keys.order()
    places, keys, change = np.arange(len(turns)), keys.take(turns), ordered[turns]
    op = changes.op[change]
    new_key = keys.begins()
    return _Lives(
        change,
        op,
        keys,
        _last_true(new_key, places),
        _last_true(new_key | (op == Op.CREATE), places),
        _places_before(changes, ranks, ordered, turns),
    )


def _last_true(mask: Mask, places: Integers) -> Integers:
    return np.maximum.accumulate(np.where(mask, places, 0)) if len(places) else places


def _places_before(changes: Changes, ranks: Integers, ordered: Integers, turns: Integers) -> Integers:
    if not len(turns):
        return turns
    # the change before is often another key's: it is looked for in the total order, not in the gathering
    place_at = np.empty(len(turns), np.int64)
    place_at[turns] = np.arange(len(turns))
    rank, place_in = ranks[ordered], changes.total_order[ordered]
    follows = np.zeros(len(turns), np.bool_)
    # the delete and the create of a changed key are neighbours, unless another task has the delete's partition
    follows[1:] = (np.diff(rank) == 0) & (np.diff(place_in) == 1)
    # roll puts the last place in front, where nothing follows
    before = np.where(follows, np.roll(place_at, 1), NOWHERE)
    found: Integers = before[turns]
    return found


@dataclass(frozen=True, slots=True)
class _Sources:
    """Where the unsent columns of rows come from: places of changes, NOWHERE for what only `base`'s old row has."""

    sent: dict[str, Integers]
    base: KeyBits
    has_base: Mask


def _trace_unsent(changes: Changes, lives: _Lives, rows: Integers) -> _Sources:
    """Trace the unsent values of rows (places of their last changes) back: through their life, and where that began
    with a changed key, on through the life under the former key."""
    found = _Sources(
        {name: lives.last_sent(unsent, rows) for name, unsent in changes.unsent.items()},
        KeyBits(np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64)),
        np.zeros(len(rows), np.bool_),
    )
    at = rows.copy()
    waiting = _find_incomplete(found, np.arange(len(rows)))
    # ends, since each turn leads to a delete from before the life that it comes from
    while len(waiting):
        at[waiting] = _one_life_back(changes, lives, at[waiting], waiting, found)
        waiting = waiting[at[waiting] != NOWHERE]
        for name, places in found.sent.items():
            # only columns without a value so far: what a later life has sent is the newer one
            open_ones = waiting[places[waiting] == NOWHERE]
            places[open_ones] = lives.last_sent(changes.unsent[name], at[open_ones])
        waiting = _find_incomplete(found, waiting)
    return found


def _find_incomplete(found: _Sources, rows: Integers) -> Integers:
    """Those of these rows that lack a value."""
    lacks = np.zeros(len(rows), np.bool_)
    for places in found.sent.values():
        lacks |= places[rows] == NOWHERE
    return rows[lacks]


def _one_life_back(changes: Changes, lives: _Lives, at: Integers, rows: Integers, found: _Sources) -> Integers:
    """The places of the deletes by which rows left their former keys; NOWHERE, and a base, where the trail ends."""
    first = lives.first_of_life[at]
    created, change = lives.op[first] == Op.CREATE, lives.change[first]
    moved = created & changes.has_former[change]
    before = lives.before[first]
    # NOWHERE is -1, for numpy the last place: what stands there counts for nothing, beside the first condition
    linked = moved & (before != NOWHERE) & (lives.op[before] == Op.DELETE)
    linked &= (lives.keys.high[before] == changes.former.high[change]) & (
        lives.keys.low[before] == changes.former.low[change]
    )
    # a life from before the batch: the key's old row has the values. A move without its delete: another task has that,
    # and the driver reads the table (`Net.borrows`). An insert sends all it has: one that lacks a value has no base
    own, former = ~created, moved & ~linked
    for mask, keys, places in ((own, lives.keys, first), (former, changes.former, change)):
        found.base.high[rows[mask]], found.base.low[rows[mask]] = keys.high[places[mask]], keys.low[places[mask]]
        found.has_base[rows[mask]] = True
    return np.where(linked, before, NOWHERE)


def _rows(changes: Changes, lives: _Lives, rows: Integers, sent: dict[str, Integers]) -> pa.Table:
    columns = [
        changes.rows[name].take(_to_indices(lives.change, sent.get(name, rows))) for name in changes.rows.column_names
    ]
    return pa.Table.from_arrays(columns, schema=changes.rows.schema)


def _to_indices(change: Integers, places: Integers) -> pa.Array:
    """Where the values are among the changes; null where there is none."""
    nowhere = places == NOWHERE
    if not nowhere.any():
        return pa.array(change[places])
    return pa.array(change[np.where(nowhere, 0, places)], mask=nowhere)
