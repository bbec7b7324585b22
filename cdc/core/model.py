"""The model of a table: rows and changes in, rows out. Tests compare every follower with it."""

from collections.abc import Iterable, Mapping

from cdc.core.change import UNCHANGED, Change, Delete, Insert, Key, Row, SentRow, Truncate, Update

Rows = Mapping[Key, Row]


def apply(rows: Rows, changes: Iterable[Change]) -> dict[Key, Row]:
    """Apply the changes of whole transactions to one table's rows, in order."""
    after: dict[Key, Row] = dict(rows)
    # the old rows of key updates, by new key: an update of a key is a Delete and an Insert, in this order
    moving: dict[Key, Row] = {}
    for change in changes:
        match change:
            case Insert(key=key, row=row, moved_from=old):
                # a plain insert sends every value; only a key update leaves some in the row under its old key
                after[key] = _merge_sent({} if old is None else moving.pop(key, {}), row)
            case Update(key=key, row=row):
                after[key] = _merge_sent(after.get(key, {}), row)
            case Delete(key=key, moved_to=new):
                gone = after.pop(key, {})
                if new is not None:
                    # for the Insert of the new key, which comes next: it takes its unsent values from this row
                    moving[new] = gone
            case Truncate():
                after.clear()
    return after


def _merge_sent(older: Row, row: SentRow) -> Row:
    return {name: older.get(name) if value is UNCHANGED else value for name, value in row.items()}
