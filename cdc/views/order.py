"""The order of views: each after those that it reads."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter

from cdc.core.containment import contain_errors
from cdc.core.errors import ConfigurationError
from cdc.core.table import TableName
from cdc.views.definition import ViewDefinition
from cdc.views.statement.final_windows import list_read_tables


def split_readable(
    views: Iterable[ViewDefinition],
) -> tuple[list[ViewDefinition], Mapping[ViewDefinition, str]]:
    """The views whose statements can be read, and why the others' cannot."""
    readable, unreadable = list[ViewDefinition](), dict[ViewDefinition, str]()
    for view in views:
        with contain_errors(f"view {view.name}", partial(unreadable.__setitem__, view)):
            list_read_tables(view)
            readable.append(view)
    return readable, unreadable


class CircleError(ConfigurationError):
    """Views of these `names` read each other."""

    def __init__(self, names: Sequence[TableName]) -> None:
        super().__init__(f"views: {' → '.join(map(str, names))} read each other", "let one read tables only")
        self.names = frozenset(names)


def sort_readable(
    views: Iterable[ViewDefinition],
) -> tuple[Mapping[ViewDefinition, list[TableName]], Mapping[ViewDefinition, str]]:
    """The views in order, each with the tables that it reads; and why the others have no place: nobody can read them,
    or they read each other.
    """
    readable, others = split_readable(views)
    unsorted = dict(others)
    while True:
        try:
            return sort_views(readable), unsorted
        except CircleError as circle:
            unsorted |= {view: circle.what.removeprefix("views: ") for view in readable if view.name in circle.names}
            readable = [view for view in readable if view not in unsorted]


def sort_views(views: Iterable[ViewDefinition]) -> Mapping[ViewDefinition, list[TableName]]:
    """The views in order, each with the tables that it reads.

    Raises ConfigurationError for a statement that does not parse, CircleError for views that read each other.
    """
    by_name = {view.name: view for view in views}
    read = {name: list_read_tables(view) for name, view in by_name.items()}
    sorter = TopologicalSorter({name: [each for each in tables if each in by_name] for name, tables in read.items()})
    try:
        return {by_name[name]: read[name] for name in sorter.static_order()}
    except CycleError as error:
        raise CircleError(error.args[1]) from None
