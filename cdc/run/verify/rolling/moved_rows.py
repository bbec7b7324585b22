"""The rows of a table that have changed between two cuts of the lake, by name.

No follower is ahead of the lake: what changed in one after a cut is among the changes from that cut to the newest.
"""

from collections.abc import Sequence
from typing import Final

from cdc.columns.rows.held import Held
from cdc.columns.rows.row_prints import Names, name_rows, print_names
from cdc.core.errors import PreconditionError
from cdc.core.table import Table
from cdc.run.verify.rolling.comparison import concat_names
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata.cuts import Cut

CUTS_AT_A_TIME: Final = 20
"""Cuts whose changes are in memory together."""


class MovedRows:
    """The changed rows of a table since a cut, named as each of these forms has it."""

    def __init__(self, feed: LakeFeed, table: Table, since: Cut, forms: Sequence[Held | None]) -> None:
        self._feed, self._table = feed, table
        self._at = since
        self._names: dict[str, list[Names]] = {_name_form(form): [] for form in forms}
        self._forms = {_name_form(form): form for form in forms}

    def extend(self) -> Cut:
        """Add what has changed up to the newest cut; returns it.

        Raises HistoryLostError when the lake no longer has the changes, PreconditionError when it has another table
        since, or one without a key has changed, whose rows have no names.
        """
        newest = self._feed.last_cut()
        while self._at.position.end_offset < newest.position.end_offset:
            steps = self._feed.cuts_after(self._at, CUTS_AT_A_TIME)
            last = next((cut for cut in reversed(steps) if not _is_behind(cut, newest)), None)
            if last is None:
                break
            self._add(self._at, last)
            self._at = last
        return newest

    def names(self, form: Held | None) -> Names:
        return concat_names(self._names[_name_form(form)])

    def _add(self, since: Cut, until: Cut) -> None:
        name = str(self._table.name)
        if name not in until.versions or not since.has_same_table(name, until):
            raise PreconditionError(f"{name} was copied again while it was compared", "it is compared again")
        if not self._table.key:
            if self._feed.change_bytes(self._table, since, until):
                raise PreconditionError(f"{name} has no key, and changed while it was compared", "it is compared again")
            return
        for part in self._feed.changes(self._table, since, until):
            for key, form in self._forms.items():
                for rows in (part.rows.select([*self._table.key]), part.gone):
                    self._names[key].append(print_names(name_rows(rows, self._table, form)))


def _is_behind(cut: Cut, other: Cut) -> bool:
    return cut.position.end_offset > other.position.end_offset


def _name_form(form: Held | None) -> str:
    return form.name if form else ""
