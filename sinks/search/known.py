"""What the only writer of some indexes knows of them without asking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc.core.table import Table, TableName
from cdc.sinks.search.indexes import TableIndex
from cdc.sinks.search.state import SearchState


@dataclass(slots=True)
class Known:
    """The state and the indexes as this writer has left them; None where it has to ask.

    A batch that asks for them takes five more requests: on a busy node, a third of its time. Nobody else writes them:
    a lease says so, and the versions of all writes say it to a writer that lives on without one. What somebody deletes
    is found by the write itself, or by the next look (`bookmarks`). After any failure nothing is known.
    """

    state: SearchState | None = None
    indexes: Mapping[TableName, TableIndex] | None = None
    prepared: Sequence[Table] = ()
    """The tables of the last `prepare`: the same ones again need nothing."""

    def forget(self) -> None:
        self.state, self.indexes, self.prepared = None, None, ()
