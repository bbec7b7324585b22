"""Problems of `indexes` of search followers that the file shows by itself."""

from collections.abc import Collection, Iterator, Mapping

from cdc.core.selection import Selection
from cdc.core.settings import Finding
from cdc.core.table import TableName
from cdc.sinks.search.settings import SearchSettings


def find_foreign_indexes(
    followers: Mapping[str, object], tables: Selection, views: Collection[TableName]
) -> Iterator[Finding]:
    """Indexes of what their follower does not hold; `views` are held only where they are named."""
    for name, follower in followers.items():
        if not isinstance(follower, SearchSettings):
            continue
        for text in follower.indexes:
            table = TableName.parse(text)
            place = ("followers", name, "indexes", text)
            if table in views and not follower.names(table):
                yield place, "is held only if tables of this follower names it"
            elif table not in views and table not in tables:
                yield place, "is none of source.tables and no view"
            elif table not in views and not follower.holds(table):
                yield place, "is not held by this follower"
