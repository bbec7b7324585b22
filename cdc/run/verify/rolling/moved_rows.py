"""The rows of a table that have changed between two cuts of the lake, by name.

No follower is ahead of the lake: what changed in one after a cut is among the changes from that cut to the newest.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from cdc.columns.rows.held import Held
from cdc.columns.rows.row_prints import Names, name_rows, print_names
from cdc.core.errors import HistoryLostError, PreconditionError
from cdc.core.table import Table
from cdc.core.waiting import Deadline
from cdc.run.verify.rolling.comparison import concat_names
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata.cuts import Cut

CUTS_AT_A_TIME: Final = 20
"""Cuts that are listed at once; the changes are read cut by cut."""
KEEP_UP_SECONDS: Final = 10.0
"""Between two looks at the lake while a table is read: each may be a request."""


class MovedRows:
    """The changed rows of a table since a cut, named as each of these forms has it."""

    def __init__(self, feed: LakeFeed, table: Table, since: Cut, forms: Sequence[Held | None]) -> None:
        self._feed, self._table = feed, table
        self._at = since
        self._names = {_name_form(form): _UniqueNames() for form in forms}
        self._forms = {_name_form(form): form for form in forms}
        self._next_look = Deadline(KEEP_UP_SECONDS)

    def keep_up(self) -> None:
        """Add what has changed, every now and then: the lake may not keep it until a long look ends.

        Raises as `extend`, which raises it again.
        """
        if self._next_look.is_past:
            self.extend()
            self._next_look = Deadline(KEEP_UP_SECONDS)

    def extend(self) -> Cut:
        """Add what has changed up to the newest cut; returns it.

        Raises HistoryLostError when the lake no longer has the changes, PreconditionError when it has another table
        since, or other cuts, or a table without a key has changed, whose rows have no names.
        """
        newest = self._feed.last_cut()
        while self._at.position.end_offset < newest.position.end_offset:
            steps = [cut for cut in self._list_cuts() if not _is_behind(cut, newest)]
            if not steps:
                break
            for cut in steps:
                self._add(self._at, cut)
                self._at = cut
        return newest

    def _list_cuts(self) -> Sequence[Cut]:
        try:
            return self._feed.cuts_after(self._at, CUTS_AT_A_TIME)
        except HistoryLostError as error:
            # no follower stands there: none has lost anything
            raise PreconditionError(
                f"the lake no longer has all that changed in {self._table.name} while it was compared",
                "it is compared again; raise the lake's retention_hours if that ends like this, too",
            ) from error

    def names(self, form: Held | None) -> Names:
        return self._names[_name_form(form)].read()

    def _add(self, since: Cut, until: Cut) -> None:
        name = str(self._table.name)
        if name not in until.versions or not since.has_same_table(name, until):
            raise PreconditionError(f"{name} was copied again while it was compared", "it is compared again")
        if not self._table.key:
            if self._feed.change_bytes(self._table, since, until):
                raise PreconditionError(f"{name} has no key, and changed while it was compared", "it is compared again")
            return
        for keys in self._feed.changed_keys(self._table, since, until):
            for name, form in self._forms.items():
                self._names[name].add(print_names(name_rows(keys, self._table, form)))


class _UniqueNames:
    """Names, each once: a row that changes all the time takes no more than another."""

    def __init__(self) -> None:
        self._known, self._added = concat_names([]), list[Names]()

    def add(self, names: Names) -> None:
        self._added.append(names)
        # sorted anew when they have doubled: each a few times only
        if sum(map(len, self._added)) > len(self._known):
            self.read()

    def read(self) -> Names:
        self._known, self._added = np.unique(concat_names([self._known, *self._added]), axis=0), []
        return self._known


def _is_behind(cut: Cut, other: Cut) -> bool:
    return cut.position.end_offset > other.position.end_offset


def _name_form(form: Held | None) -> str:
    return form.name if form else ""
