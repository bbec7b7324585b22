"""The rows that a batch adds to a history."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.arrays import Integers, Mask
from cdc.columns.netting.changes import Changes, Op
from cdc.columns.netting.transactions import Ends
from cdc.columns.netting.versions import Versions, list_versions
from cdc.columns.rows.key_fingerprints import KeyBits
from cdc.columns.values.arrow_types import arrow_schema
from cdc.core.table import Table
from cdc.sinks.lake.history.shape import ADDED, FURTHER, history_table

_TRUNCATE = "truncate"
_NAMES = np.array([_TRUNCATE] * (max(Op) + 1), object)
_NAMES[[Op.CREATE, Op.UPDATE, Op.DELETE]] = ["insert", "update", "delete"]
ReadOld = Callable[[KeyBits, Sequence[str]], pa.Table | None]
"""Reads columns of the rows before the batch by distinct keys, in their order; None when one is not there."""


@dataclass(frozen=True, slots=True)
class TableVersions:
    """One table's part of a batch: its changes, the offset of each one's END, and the batch's ENDs."""

    changes: Changes
    ranks: Integers
    ends: Ends


class UnsentVersionError(Exception):
    """An update left values out, and there is no row from before to take them from."""


def make_rows(
    own: TableVersions, table: Table, after: int, read_old: ReadOld, live_keys: Callable[[], pa.Table]
) -> pa.Table:
    """The history's rows of a batch, in commit order; without those of ENDs up to the offset `after`.

    Those are listed as well, since they say what later changes left out. `live_keys`: the key columns of all rows
    before the batch; asked for a TRUNCATE only, which ends each key's version. Raises UnsentVersionError.
    """
    versions = list_versions(own.changes, own.ranks)
    rows = _fill_unsent(versions, read_old)
    op = own.changes.op[versions.place]
    rows = _with_keys(rows, own.changes.key_columns.take(pa.array(versions.place)), table)
    places, kinds = versions.place, _NAMES[op].tolist()
    truncates = np.flatnonzero(op == Op.TRUNCATE)
    if len(truncates):
        rows, places, kinds = _expand_truncates(rows, places, kinds, truncates, table, live_keys())
    further = _add_further(rows, kinds, places, own, table)
    return further.filter(pa.array(own.ranks[places] > after))


def _fill_unsent(versions: Versions, read_old: ReadOld) -> pa.Table:
    rows = versions.rows
    if not versions.unsent:
        return rows
    lacking: Mask = np.logical_or.reduce(list(versions.unsent.values()))
    if not versions.has_base[lacking].all():
        raise UnsentVersionError
    bases = versions.base.take(np.flatnonzero(lacking))
    order = bases.order()
    begins = bases.take(order).begins()
    # several versions of a row may take the same old value
    of_distinct = np.empty(len(bases), np.int64)
    of_distinct[order] = np.cumsum(begins) - 1
    old = read_old(bases.take(order[begins]), list(versions.unsent))
    if old is None:
        raise UnsentVersionError
    number = np.cumsum(lacking) - 1
    for name, mask in versions.unsent.items():
        at = rows.schema.get_field_index(name)
        places = np.arange(len(rows))
        places[mask] = len(rows) + of_distinct[number[mask]]
        both = pa.chunked_array([*rows[name].chunks, *old[name].chunks], rows.schema.field(at).type)
        rows = rows.set_column(at, rows.schema.field(at), both.take(pa.array(places)))
    return rows


def _with_keys(rows: pa.Table, keys: pa.Table, table: Table) -> pa.Table:
    """The rows, with the key where a change ends a version."""
    for name in table.key:
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, pc.coalesce(rows[name], keys[name].cast(field.type)))
    return rows


def _expand_truncates(
    rows: pa.Table, places: Integers, kinds: list[str], truncates: Integers, table: Table, live: pa.Table
) -> tuple[pa.Table, Integers, list[str]]:
    """In place of each TRUNCATE one row for every key that had a row then."""
    parts, all_places, all_kinds, start = list[pa.Table](), list[Integers](), list[str](), 0
    keys = live.select(list(table.key))
    for at in truncates.tolist():
        stretch = rows.slice(start, at - start)
        there = _keys_there(keys, stretch.select(list(table.key)), kinds[start:at])
        ended = pa.Table.from_arrays(
            [
                there[field.name].cast(field.type) if field.name in table.key else pa.nulls(len(there), field.type)
                for field in rows.schema
            ],
            schema=rows.schema,
        )
        parts += [stretch, ended]
        all_places += [places[start:at], np.repeat(places[at : at + 1], len(there))]
        all_kinds += [*kinds[start:at], *[_TRUNCATE] * len(there)]
        start, keys = at + 1, keys.slice(0, 0)
    parts.append(rows.slice(start))
    return pa.concat_tables(parts), np.concatenate([*all_places, places[start:]]), [*all_kinds, *kinds[start:]]


def _keys_there(before: pa.Table, changed: pa.Table, kinds: Sequence[str]) -> pa.Table:
    """The keys that have a row after these changes, in commit order, to those that had one before."""
    there = dict.fromkeys(_tuples(before))
    for key, kind in zip(_tuples(changed), kinds, strict=True):
        if kind == "delete":
            there.pop(key, None)
        else:
            there[key] = None
    columns = list(zip(*there, strict=True)) if there else [()] * changed.num_columns
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, changed.schema, strict=True)],
        schema=changed.schema,
    )


def _tuples(keys: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in keys.columns), strict=True))


def _add_further(rows: pa.Table, kinds: list[str], places: Integers, own: TableVersions, table: Table) -> pa.Table:
    at = np.searchsorted(own.ends.offset, own.ranks[places])
    further: list[Any] = [
        kinds,
        own.ends.committed_ms[at] * 1000,
        own.ends.lsn[at],
        own.changes.tx_id[places],
    ]
    return with_further(rows, further, table)


def with_further(rows: pa.Table, further: Sequence[Any], table: Table) -> pa.Table:
    """The rows of a table as rows of its history, with these columns of FURTHER; without ADDED ones."""
    schema = arrow_schema(history_table(table))
    schema = pa.schema([field for field in schema if field.name not in ADDED])
    types = [schema.field(column.name).type for column in FURTHER[: len(further)]]
    added = [
        (pa.array(values) if not isinstance(values, pa.Array) else values).cast(kind)
        for values, kind in zip(further, types, strict=True)
    ]
    columns = [rows[name].cast(schema.field(name).type) for name in table.column_names]
    return pa.Table.from_arrays([*columns, *added], schema=schema)
