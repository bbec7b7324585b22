"""Every version of a batch's rows, in commit order, also those that lived for a moment inside it.

Netting keeps the last state of a key (`net_changes.py`); a history keeps them all. A version begins with a create or an
update, and ends with the key's next change, or with a TRUNCATE, which ends the versions of all keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cdc.columns.arrays import Integers, Mask
from cdc.columns.netting.changes import Changes, Op, order_changes
from cdc.columns.netting.net_changes import NOWHERE, group_by_key, take_rows, trace_unsent
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that begin in a batch, and the changes that only end one; in commit order.

    | column | content |
    |---|---|
    | `place` | the change's place among the batch's changes |
    | `keys` | the row's key; meaningless for a TRUNCATE |
    | `rows` | the row as it is from then on; null where the change only ends a version |
    | `unsent` | column name → in which rows the value is missing: it is that of `base`'s row before the batch |
    | `base`, `has_base` | the key of that row |
    """

    place: Integers
    keys: KeyBits
    rows: pa.Table
    unsent: dict[str, Mask]
    base: KeyBits
    has_base: Mask

    def __len__(self) -> int:
        return len(self.place)

    @classmethod
    def concat(cls, parts: "Sequence[Versions]") -> "Versions":
        """Concatenate versions of one table; there is at least one part."""
        names = dict.fromkeys(name for part in parts for name in part.unsent)
        return cls(
            np.concatenate([part.place for part in parts]),
            concat_keys([part.keys for part in parts]),
            pa.concat_tables([part.rows for part in parts]),
            {name: np.concatenate([part.unsent.get(name, part.has_base & False) for part in parts]) for name in names},
            concat_keys([part.base for part in parts]),
            np.concatenate([part.has_base for part in parts]),
        )


def list_versions(changes: Changes, ranks: Integers) -> Versions:
    """List the versions in one table's changes of whole transactions; `ranks` has the offset of each change's END.

    The changes may be in any order, and redelivered ones may be there several times.
    """
    ordered = order_changes(changes, ranks)
    # a TRUNCATE ends a stretch: rows behind it have nothing from before
    ends = np.flatnonzero(changes.op[ordered] == Op.TRUNCATE) + 1
    stretches = np.split(ordered, ends)
    parts = [_list_stretch(changes, ranks, stretch, is_first=not n) for n, stretch in enumerate(stretches)]
    return Versions.concat(parts)


def _list_stretch(changes: Changes, ranks: Integers, stretch: Integers, *, is_first: bool) -> Versions:
    own = stretch[changes.op[stretch] != Op.TRUNCATE]
    lives = group_by_key(changes, ranks, own)
    at = np.arange(len(own))
    sources = trace_unsent(changes, lives, at)
    begins = lives.op != Op.DELETE
    has_base = sources.has_base & begins & is_first
    rows = take_rows(changes, lives, at, sources.sent)
    unsent = {name: (places == NOWHERE) & begins for name, places in sources.sent.items()}
    versions = Versions(
        lives.change,
        lives.keys,
        rows,
        {name: mask for name, mask in unsent.items() if mask.any()},
        sources.base,
        has_base,
    )
    return _sort(versions, changes, stretch)


def _sort(versions: Versions, changes: Changes, stretch: Integers) -> Versions:
    """In commit order instead of by key, with the TRUNCATE at the end, if there is one."""
    turn = np.empty(len(changes), np.int64)
    turn[stretch] = np.arange(len(stretch))
    order = np.argsort(turn[versions.place], kind="stable")
    rows = versions.rows.take(pa.array(order))
    sorted_ = Versions(
        versions.place[order],
        versions.keys.take(order),
        rows,
        {name: mask[order] for name, mask in versions.unsent.items()},
        versions.base.take(order),
        versions.has_base[order],
    )
    truncates = stretch[changes.op[stretch] == Op.TRUNCATE]
    return Versions.concat([sorted_, _ends_only(changes, truncates, rows.schema)]) if len(truncates) else sorted_


def _ends_only(changes: Changes, places: Integers, schema: pa.Schema) -> Versions:
    keys, nulls = changes.keys.take(places), [pa.nulls(len(places), field.type) for field in schema]
    none = np.zeros(len(places), np.bool_)
    return Versions(places, keys, pa.Table.from_arrays(nulls, schema=schema), {}, keys, none)
