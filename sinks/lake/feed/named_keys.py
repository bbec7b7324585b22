"""Which keys were named so far, of as many rows as there are: 16 bytes each, in sorted runs."""

from typing import Final

import numpy as np
import pyarrow as pa

from cdc.columns.arrays import Mask
from cdc.columns.rows.key_fingerprints import KeyBits, concat_keys
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.core.table import Table
from cdc.sinks.lake.index.sorted_runs import MemoryRun

RUN_KEYS: Final = 2**21
"""Of a run that is merged with no other: more take a while, and twice the memory while they are."""


class NamedKeys:
    """The keys of a table that rows had so far."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._runs: list[MemoryRun] = []

    def take_new(self, rows: pa.Table) -> pa.Table:
        """Those of these rows whose keys were not named before; they are from now on."""
        keys = row_bits(rows, self._table)
        is_new = self._find_new(keys)
        self._add(keys.take(is_new))
        return _select(rows, is_new)

    def leave_out(self, rows: pa.Table) -> pa.Table:
        """Those of these rows whose keys were not named before."""
        return _select(rows, self._find_new(row_bits(rows, self._table)))

    def _find_new(self, keys: KeyBits) -> Mask:
        # runs are searched fastest in order
        order = keys.order()
        ordered, is_new = keys.take(order), np.ones(len(keys), np.bool_)
        for run in self._runs:
            is_new[order[run.find(ordered).queries]] = False
        return is_new

    def _add(self, keys: KeyBits) -> None:
        # each run is merged with others of its size, as in a log-structured merge tree: few runs, and each key is
        # sorted a few times only
        while self._runs and len(self._runs[-1]) < min(2 * len(keys), RUN_KEYS):
            keys = concat_keys([self._runs.pop().keys, keys])
        if len(keys):
            # where a key is does not matter: one zero stands for all places
            places = np.broadcast_to(np.uint64(0), len(keys))
            self._runs.append(MemoryRun(keys.take(keys.order()), places))


def _select(rows: pa.Table, mask: Mask) -> pa.Table:
    return rows if mask.all() else rows.filter(pa.array(mask))
