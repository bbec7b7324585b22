"""The model: rows and changes in, rows out. Every follower is compared with it."""

from collections.abc import Iterable, Mapping

from cdc.core.change import UNCHANGED, Change, Delete, Insert, Key, Row, SentRow, Truncate, Update

Rows = Mapping[Key, Row]


def apply(rows: Rows, changes: Iterable[Change]) -> dict[Key, Row]:
    """The rows of one table after its changes, one after the other, in whole transactions."""
    after: dict[Key, Row] = dict(rows)
    moving: dict[Key, Row] = {}
    for change in changes:
        match change:
            case Insert(key=key, row=row, moved_from=old):
                after[key] = _sent_over({} if old is None else moving.pop(key, {}), row)
            case Update(key=key, row=row):
                after[key] = _sent_over(after.get(key, {}), row)
            case Delete(key=key, moved_to=new):
                gone = after.pop(key, {})
                if new is not None:
                    # under the new key, for the create that comes next: what that has not sent is in this row
                    moving[new] = gone
            case Truncate():
                after.clear()
    return after


def _sent_over(older: Row, row: SentRow) -> Row:
    return {name: older.get(name) if value is UNCHANGED else value for name, value in row.items()}
