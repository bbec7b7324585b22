"""The fold for tables without a key: rows are told apart by all that they hold, and counted.

Postgres sends whole old rows for them (replica identity FULL). An update is a row that goes and one that comes; which
of several equal rows it is, nobody says, and it makes no difference.
"""

import numpy as np

from cdc.columns.arrays import Integers
from cdc.columns.netting.changes import Changes, Op
from cdc.columns.netting.net_changes import NetChanges, sort_changes
from cdc.columns.rows.key_fingerprints import concat_keys


def fold_keyless(changes: Changes, ranks: Integers) -> NetChanges:
    """Fold one table's changes, of whole transactions whose ENDs are at the offsets `ranks`, a rank a change.

    The changes may come in any order, and redelivered ones more than once. The effect has a row as often as it came
    more than it went, or has it as gone, as often as it went more than it came.
    """
    ordered, truncated = sort_changes(changes, ranks)
    op = changes.op[ordered]
    came, went = ordered[(op == Op.CREATE) | (op == Op.UPDATE)], ordered[changes.has_former[ordered]]
    # those that came first: in a group of equals, such a one is in front if there is any, and one that went is behind
    bits = concat_keys([changes.keys.take(came), changes.former.take(went)])
    change = np.concatenate([came, went])
    order = bits.order()
    starts = np.flatnonzero(bits.take(order).begins())
    more = np.add.reduceat(np.where(order < len(came), 1, -1), starts) if len(starts) else starts
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
