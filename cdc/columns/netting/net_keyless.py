"""Nets changes of tables without a key: all columns identify a row, and equal rows are counted.

Postgres sends whole old rows for them (replica identity FULL). An update deletes one row and inserts another; which one
of several equal rows makes no difference.
"""

import numpy as np

from cdc.columns.arrays import Integers
from cdc.columns.netting.changes import Changes, Op, sort_changes
from cdc.columns.netting.net_changes import NetChanges
from cdc.columns.rows.key_fingerprints import concat_keys


def fold_keyless(changes: Changes, ranks: Integers) -> NetChanges:
    """Net one table's changes of whole transactions; `ranks` has the offset of each change's END.

    The changes may be in any order, and redelivered ones may be there several times. The effect has each row as often
    as it was inserted more than deleted, or has it in `gone`, as often as it was deleted more than inserted.
    """
    ordered, truncated = sort_changes(changes, ranks)
    op = changes.op[ordered]
    new, old = ordered[(op == Op.CREATE) | (op == Op.UPDATE)], ordered[changes.has_former[ordered]]
    # new rows first: the sort is stable, so each group of equal rows has its new ones before its old ones
    bits = concat_keys([changes.keys.take(new), changes.former.take(old)])
    change = np.concatenate([new, old])
    order = bits.order()
    starts = np.flatnonzero(bits.take(order).begins())
    # +1 for a new row, -1 for an old one: the sum says how often the row is left, or has to go
    more = np.add.reduceat(np.where(order < len(new), 1, -1), starts) if len(starts) else starts
    ends = np.append(starts, len(order))[1:] - 1
    fresh, gone = order[np.repeat(starts, np.maximum(more, 0))], order[np.repeat(ends, np.maximum(-more, 0))]
    never = np.zeros(len(fresh), np.bool_)
    return NetChanges(
        truncated,
        bits.take(fresh),
        changes.rows.take(change[fresh]),
        never,
        {},
        bits.take(fresh),
        never,
        bits.take(gone),
        changes.key_columns.take(change[gone]),
    )
