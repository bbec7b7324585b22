"""The model's changes as columns, and what a fold leaves applied to rows: how columns are held to the model."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from cdc.columns.netting.changes import Changes, Op
from cdc.columns.netting.net_changes import NetChanges
from cdc.columns.rows.key_fingerprints import KeyBits, key_bits
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Table
from tests.support.model import UNCHANGED, Change, Delete, Insert, Key, Row, Truncate, Update

OPS = {Insert: Op.CREATE, Update: Op.UPDATE, Delete: Op.DELETE, Truncate: Op.TRUNCATE}


def bits_of(table: Table, keys: Sequence[Key | None]) -> KeyBits:
    """Keys as bits; zeros for none."""
    there = np.array([key is not None for key in keys], np.bool_)
    bits = KeyBits(np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.uint64))
    if there.any():
        schema = arrow_schema(table)
        own = [key for key in keys if key is not None]
        columns = [pa.array([k[n] for k in own], schema.field(name).type) for n, name in enumerate(table.key)]
        found = key_bits(table.key_columns, columns)
        bits.high[there], bits.low[there] = found.high, found.low
    return bits


def as_columns(table: Table, changes: Sequence[Change], tx_ids: Mapping[int, int] | None = None) -> Changes:
    """The changes as decoding would give them; a transaction's id is its rank unless `tx_ids` says otherwise."""
    keys = [None if isinstance(change, Truncate) else change.key for change in changes]
    former = [change.moved_from if isinstance(change, Insert) else None for change in changes]
    sent = [change.row if isinstance(change, Insert | Update) else {} for change in changes]
    rows = [{name: None if value is UNCHANGED else value for name, value in row.items()} for row in sent]
    schema = arrow_schema(table)
    key_schema = pa.schema([schema.field(name) for name in table.key])
    key_rows = [dict(zip(table.key, key, strict=True)) if key else {} for key in keys]
    ids = tx_ids or {}
    return Changes(
        np.array([ids.get(change.place.rank, change.place.rank) for change in changes], np.int64),
        np.array([change.place.total_order for change in changes], np.int64),
        np.array([OPS[type(change)] for change in changes], np.uint8),
        bits_of(table, keys),
        pa.Table.from_pylist(key_rows, key_schema),
        pa.Table.from_pylist(rows, schema),
        _unsent(table, sent),
        bits_of(table, former),
        np.array([key is not None for key in former], np.bool_),
        np.array([isinstance(c, Delete) and c.moved_to is not None for c in changes], np.bool_),
    )


def _unsent(
    table: Table, sent: Sequence[Mapping[str, object]]
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    masks = {name: np.array([row.get(name) is UNCHANGED for row in sent], np.bool_) for name in table.column_names}
    return {name: mask for name, mask in masks.items() if mask.any()}


def applied(table: Table, rows: Mapping[Key, Row], net: NetChanges) -> dict[Key, Row]:
    """The rows after a net effect; fails when it speaks of a key twice, or calls a row new that is there."""
    by_bits = dict(zip(bits_of(table, list(rows)).pairs(), rows.values(), strict=True)) if rows else {}
    after: dict[Key, Row] = {} if net.truncated else dict(rows)
    for row in net.gone_columns.to_pylist():
        after.pop(tuple(row[name] for name in table.key), None)
    bases = net.base.pairs()
    for at, row in enumerate(net.rows.to_pylist()):
        key = tuple(row[name] for name in table.key)
        assert net.existed[at] == (key in rows and not net.truncated)
        base = by_bits[bases[at]] if net.has_base[at] else {}
        after[key] = {n: base.get(n) if n in net.unsent and net.unsent[n][at] else v for n, v in row.items()}
    pairs = net.keys.pairs() + net.gone.pairs()
    assert len(set(pairs)) == len(pairs), "a key is there twice"
    return after
