"""The rows that a batch adds to a history."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.arrays import Integers, Mask
from cdc.columns.netting.changes import Changes, Op
from cdc.columns.netting.ends import Ends
from cdc.columns.netting.versions import Versions, list_versions
from cdc.columns.rows.key_fingerprints import KeyBits
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Table
from cdc.sinks.lake.history.shape import ADDED, CHANGE, ENDS, FURTHER, history_table
from cdc.sinks.lake.table.commit import fill_unsent

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
    own: TableVersions, table: Table, after: int, read_old: ReadOld, live_keys: Callable[[], Iterable[pa.Table]]
) -> Iterator[pa.Table]:
    """The history's rows of a batch in commit order, in parts; without those of ENDs up to the offset `after`.

    Those are listed as well, since they say what later changes left out. `live_keys`: the key columns of all rows
    before the batch, in parts; asked for a TRUNCATE only, which ends each key's version. Raises UnsentVersionError.
    """
    versions = list_versions(own.changes, own.ranks)
    rows = _fill_unsent(versions, read_old)
    op = own.changes.op[versions.place]
    rows = _with_keys(rows, own.changes.key_columns.take(pa.array(versions.place)), table)
    rows = _add_further(rows, _NAMES[op].tolist(), versions.place, own, table)
    is_new, start = own.ranks[versions.place] > after, 0
    for at in np.flatnonzero(op == Op.TRUNCATE).tolist():
        stretch = rows.slice(start, at - start)
        yield stretch.filter(pa.array(is_new[start:at]))
        if is_new[at]:
            yield from _end_all(rows.slice(at, 1), () if start else live_keys(), stretch, table.key)
        start = at + 1
    yield rows.slice(start).filter(pa.array(is_new[start:]))


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
    # before the first that lacks a value it is another's place, which nobody asks for
    return fill_unsent(rows, versions.unsent, old, of_distinct[np.cumsum(lacking) - 1])


def _with_keys(rows: pa.Table, keys: pa.Table, table: Table) -> pa.Table:
    """The rows, with the key where a change ends a version."""
    for name in table.key:
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, pc.coalesce(rows[name], keys[name].cast(field.type)))
    return rows


def _end_all(
    truncate: pa.Table, before: Iterable[pa.Table], stretch: pa.Table, key: Sequence[str]
) -> Iterator[pa.Table]:
    """A row like this TRUNCATE's for every key that has a row then.

    `before`: the keys that had one before the changes of `stretch`, which are in commit order.
    """
    # in one thread: `last` is that of the order
    last = stretch.group_by([*key], use_threads=False).aggregate([(CHANGE, "last")])
    changed = last.select([*key])
    for keys in before:
        yield _repeat(truncate, keys.select([*key]).join(changed, [*key], join_type="left anti"))
    ended = pc.is_in(last[f"{CHANGE}_last"], pa.array(ENDS))
    yield _repeat(truncate, changed.filter(pc.invert(ended)))


def _repeat(row: pa.Table, keys: pa.Table) -> pa.Table:
    """The row for each of these keys."""
    rows = row.take(pa.array(np.zeros(len(keys), np.int64)))
    for name in keys.column_names:
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), keys[name].cast(rows.schema.field(at).type))
    return rows


def _add_further(rows: pa.Table, kinds: Sequence[str], places: Integers, own: TableVersions, table: Table) -> pa.Table:
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
