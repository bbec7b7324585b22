"""Nets a batch of one table's changes: the last state of every key.

Log compaction does the same for a topic (*Designing Data-Intensive Applications*, ch. 11): it keeps the last value of a
key. Three cases are beyond it: unsent values, rows whose key changed, and TRUNCATE. `tests/support/model.py`
defines the result.

The changes of a key form lives; each life begins with a create. Only the last life of a key counts. An older one
matters only if its row moved to another key, and that key's changes did not send all values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.columns.arrays import Integers, Mask
from cdc.columns.netting.changes import Changes, Op, sort_changes
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys, empty_keys, zero_keys
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Table

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class NetChanges:
    """The net effect of a batch on a table.

    | column | content |
    |---|---|
    | `truncated` | delete all rows from before the batch first |
    | `keys`, `rows` | keys with a row after the batch, and that row |
    | `existed` | had the key a row before the batch? |
    | `unsent` | column name → in which rows the value is missing: take it from the row of `base` before the batch |
    | `base`, `has_base` | the key of that row; null values if there is none |
    | `gone`, `gone_columns` | keys that had a row before the batch and have none after it |
    | `passing` | keys that came and went within the batch: no row has them, if the key is unique all the time |

    Example: key 1 exists with (1, "a", "long"); the batch updates it to (1, "b", unsent), inserts key 2 and deletes the
    existing key 3:

        keys  rows            existed  unsent[text]  base        gone
        1     (1, "b", null)  true     true          1           3
        2     (2, "c", "x")   false    false         -
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
    passing: KeyBits = field(default_factory=empty_keys)

    @property
    def is_empty(self) -> bool:
        return not (self.truncated or len(self.keys) or len(self.gone) or len(self.passing))

    @property
    def incomplete(self) -> Mask:
        """Which rows have an unsent value."""
        incomplete = np.zeros(len(self.keys), np.bool_)
        for mask in self.unsent.values():
            incomplete |= mask
        return incomplete

    def borrows(self) -> bool:
        """Does any row take unsent values from another key's row?"""
        elsewhere = (self.base.high != self.keys.high) | (self.base.low != self.keys.low)
        return bool((self.incomplete & self.has_base & elsewhere).any())

    def only(self, rows: Mask, *, gone: bool) -> "NetChanges":
        """Select some of the rows, with or without the deleted keys."""
        gone_slice = slice(None) if gone else slice(0)
        at = np.flatnonzero(rows)
        return NetChanges(
            self.truncated,
            self.keys.take(at),
            self.rows.take(at),
            self.existed[at],
            {name: mask[at] for name, mask in self.unsent.items() if mask[at].any()},
            self.base.take(at),
            self.has_base[at],
            KeyBits(self.gone.high[gone_slice], self.gone.low[gone_slice]),
            self.gone_columns if gone else self.gone_columns.slice(0, 0),
            self.passing if gone else empty_keys(),
        )

    @classmethod
    def concat(cls, parts: "Sequence[NetChanges]") -> "NetChanges":
        """Concatenate effects on different keys; there is at least one, and none is of a TRUNCATE."""
        names = dict.fromkeys(name for part in parts for name in part.unsent)
        return cls(
            False,
            concat_keys([part.keys for part in parts]),
            pa.concat_tables([part.rows for part in parts]),
            np.concatenate([part.existed for part in parts]),
            # a part without a mask has sent all values of this column
            {name: np.concatenate([part.unsent.get(name, part.existed & False) for part in parts]) for name in names},
            concat_keys([part.base for part in parts]),
            np.concatenate([part.has_base for part in parts]),
            concat_keys([part.gone for part in parts]),
            pa.concat_tables([part.gone_columns for part in parts]),
            concat_keys([part.passing for part in parts]),
        )


def empty_net(table: Table) -> NetChanges:
    """Make the effect of no changes."""
    schema, keys, mask = arrow_schema(table), empty_keys(), np.empty(0, np.bool_)
    key_columns = pa.schema([schema.field(name) for name in table.key]).empty_table()
    return NetChanges(False, keys, schema.empty_table(), mask, {}, keys, mask, keys, key_columns)


def fold(changes: Changes, ranks: Integers) -> NetChanges:
    """Net one table's changes of whole transactions; `ranks` has the offset of each change's END.

    The changes may be in any order, and redelivered ones may be there several times.
    """
    ordered, truncated = sort_changes(changes, ranks)
    lives = group_by_key(changes, ranks, ordered)
    final = lives.last_of_keys()
    ended = lives.op[final] == Op.DELETE
    # Postgres never creates an existing key: a key whose changes do not begin with a create had a row before the batch
    existed = lives.op[lives.first_of_key[final]] != Op.CREATE
    stay, gone, passing = final[~ended], final[ended & existed], final[ended & ~existed]
    sources = trace_unsent(changes, lives, stay)
    return NetChanges(
        truncated,
        lives.keys.take(stay),
        take_rows(changes, lives, stay, sources.sent),
        # a TRUNCATE has deleted the rows from before: none existed, and none has values to take
        existed[~ended] & (not truncated),
        {name: places == NOWHERE for name, places in sources.sent.items() if (places == NOWHERE).any()},
        sources.base,
        sources.has_base & (not truncated),
        lives.keys.take(gone),
        changes.key_columns.take(lives.change[gone]),
        lives.keys.take(passing),
    )


@dataclass(frozen=True, slots=True)
class Lives:
    """The changes sorted by key, and in total order within each key.

    `change`: the index of the change. `first_of_key`, `first_of_life`: the place (in this sorting) where the key or the
    life begins. `before`: the place of the directly preceding change of the same transaction, or NOWHERE.
    """

    change: Integers
    op: npt.NDArray[np.uint8]
    keys: KeyBits
    first_of_key: Integers
    first_of_life: Integers
    before: Integers

    def last_of_keys(self) -> Integers:
        """Find the place of every key's last change."""
        if not len(self.change):
            return self.change
        return np.flatnonzero(np.append(self.first_of_key[1:] != self.first_of_key[:-1], True))

    def last_sent(self, unsent: Mask, at: Integers) -> Integers:
        """For the changes at these places, find the last change of the same life, up to them, that sent a value."""
        if not len(self.change):
            return at
        # a DELETE has null columns that were never sent as nulls: skip it
        sent = ~unsent[self.change] & (self.op != Op.DELETE)
        last = np.maximum.accumulate(np.where(sent, np.arange(len(sent)), NOWHERE))[at]
        # the running maximum crosses the borders of keys and lives: drop places before this life
        return np.where(last >= self.first_of_life[at], last, NOWHERE)


def group_by_key(changes: Changes, ranks: Integers, ordered: Integers) -> Lives:
    """Sort the changes at these places, which are in total order, by key."""
    keys = changes.keys.take(ordered)
    # the sort is stable: within a key, changes keep the total order of `ordered`
    turns = keys.order()
    places, keys, change = np.arange(len(turns)), keys.take(turns), ordered[turns]
    op = changes.op[change]
    new_key = keys.begins()
    return Lives(
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
    # the preceding change often has another key: search the total order, not the sorting by key
    place_at = np.empty(len(turns), np.int64)
    place_at[turns] = np.arange(len(turns))
    rank, place_in = ranks[ordered], changes.number[ordered]
    follows = np.zeros(len(turns), np.bool_)
    # the delete and the create of a key update are neighbours, unless another task has the delete's partition
    follows[1:] = (np.diff(rank) == 0) & (np.diff(place_in) == 1)
    # roll moves the last place to the front, where `follows` is false
    before = np.where(follows, np.roll(place_at, 1), NOWHERE)
    found: Integers = before[turns]
    return found


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of unsent values: column → place of the change that sent it; NOWHERE if only `base`'s row has it."""

    sent: dict[str, Integers]
    base: KeyBits
    has_base: Mask


def trace_unsent(changes: Changes, lives: Lives, rows: Integers) -> Sources:
    """Find the sources of the rows' unsent values (`rows`: places of their last changes).

    A value is searched in the row's life; if that began with a key update, also in the life under the old key.
    """
    sources = Sources(
        {name: lives.last_sent(unsent, rows) for name, unsent in changes.unsent.items()},
        zero_keys(len(rows)),
        np.zeros(len(rows), np.bool_),
    )
    at = rows.copy()
    open_rows = _find_incomplete(sources, np.arange(len(rows)))
    # terminates: each turn goes to a delete that is older than the life it comes from
    while len(open_rows):
        at[open_rows] = _one_life_back(changes, lives, at[open_rows], open_rows, sources)
        open_rows = open_rows[at[open_rows] != NOWHERE]
        for name, places in sources.sent.items():
            # only columns without a value so far: a later life has the newer value
            unset = open_rows[places[open_rows] == NOWHERE]
            places[unset] = lives.last_sent(changes.unsent[name], at[unset])
        open_rows = _find_incomplete(sources, open_rows)
    return sources


def _find_incomplete(sources: Sources, rows: Integers) -> Integers:
    """Find the rows that still lack the source of a value."""
    is_incomplete = np.zeros(len(rows), np.bool_)
    for places in sources.sent.values():
        is_incomplete |= places[rows] == NOWHERE
    return rows[is_incomplete]


def _one_life_back(changes: Changes, lives: Lives, at: Integers, rows: Integers, sources: Sources) -> Integers:
    """Find the delete by which each row left its old key; NOWHERE if there is none, and then set the row's base."""
    first = lives.first_of_life[at]
    created, change = lives.op[first] == Op.CREATE, lives.change[first]
    moved = created & changes.has_former[change]
    before = lives.before[first]
    # NOWHERE is -1, which numpy reads as the last place: the first condition masks those values
    linked = moved & (before != NOWHERE) & (lives.op[before] == Op.DELETE)
    linked &= (lives.keys.high[before] == changes.former.high[change]) & (
        lives.keys.low[before] == changes.former.low[change]
    )
    # A life from before the batch: the key's old row has the values. A key update without its delete: another task has
    # the delete, and the driver reads the table (`NetChanges.borrows`). A plain insert sends all values: it needs no
    # base.
    own, former = ~created, moved & ~linked
    for mask, keys, places in ((own, lives.keys, first), (former, changes.former, change)):
        sources.base.high[rows[mask]], sources.base.low[rows[mask]] = keys.high[places[mask]], keys.low[places[mask]]
        sources.has_base[rows[mask]] = True
    return np.where(linked, before, NOWHERE)


def take_rows(changes: Changes, lives: Lives, rows: Integers, sent: dict[str, Integers]) -> pa.Table:
    columns = [
        # a column that is not in `sent` was sent by every change, so by the last one
        changes.rows[name].take(_to_indices(lives.change, sent.get(name, rows)))
        for name in changes.rows.column_names
    ]
    return pa.Table.from_arrays(columns, schema=changes.rows.schema)


def _to_indices(change: Integers, places: Integers) -> pa.Array:
    """The index of the change that has the value; null if there is none."""
    nowhere = places == NOWHERE
    if not nowhere.any():
        return pa.array(change[places])
    # any valid place will do: the mask makes it null
    return pa.array(change[np.where(nowhere, 0, places)], mask=nowhere)
