"""Problems of `history:` that the configuration file shows by itself: nothing else may have the name of a history."""

from collections.abc import Iterator, Sequence

from cdc.core.selection import Selection
from cdc.core.settings import Finding
from cdc.core.table import TableName
from cdc.sinks.lake.history.shape import find_tracked


def find_wrong_histories(names: Sequence[TableName], selection: Selection) -> Iterator[Finding]:
    """Tables of which no history can be kept, by their places in the list.

    Names that differ in case only count as the same, and so do those that a later epoch of a history may get.
    """
    spelled = [str(name).casefold() for name in names]
    for number, name in enumerate(names):
        others = [other for other in names if other != name]
        if spelled.index(spelled[number]) < number:
            yield (number,), f"{name} is there twice, or differs from another one by its case only"
        elif tracked := find_tracked(name, others):
            yield (number,), f"is what the history of {tracked} is named, or may be"
        elif taken := next((table for table in selection.names if find_tracked(table, [name])), None):
            yield (number,), f"its history would be {taken}, which is a table that is followed"
