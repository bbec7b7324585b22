"""What a follower copies from the lake when it begins at a cut."""

from dataclasses import replace
from unittest.mock import Mock

from cdc.core.position import Bookmark, Lsn, Position
from cdc.core.table import Table, TableName
from cdc.run.copy.fill import TableFiller
from cdc.sinks.lake.metadata.cuts import Cut
from tests.contract.followers import OTHERS
from tests.support.histories import THINGS

CUT = Cut(Position(1, Lsn(10), 1), 0, {str(THINGS.name): 3, str(OTHERS.name): 1}, {})


def copied_at(cut: Cut) -> list[TableName]:
    """What a follower copies that has a copy of each table of this cut, where it begins."""
    bookmark, loaded = Bookmark(Lsn(1), 4711, 1), list[TableName]()
    tables = {table.name: table for table in (THINGS, OTHERS)}

    def split_readable(at: Cut, but: list[TableName]) -> tuple[list[tuple[Table, Bookmark]], list[TableName]]:
        return [(table, bookmark) for name, table in tables.items() if name not in but], []

    feed = Mock(require_cut=Mock(return_value=cut), split_readable=split_readable)
    follower = Mock(
        bookmarks=Mock(return_value=dict.fromkeys(tables, bookmark)),
        stops=Mock(return_value={}),
        remarks=Mock(return_value=()),
        furthest=Mock(return_value=None),
        load=lambda table, copy, at: loaded.append(table.name),
    )
    TableFiller("search", follower, feed, lambda line: None).resume()
    return loaded


def test_a_view_that_joined_the_cut_is_copied_again() -> None:
    """The follower may have been at the cut before, with older rows of that name."""
    assert copied_at(CUT) == []
    assert copied_at(replace(CUT, joined=frozenset({str(THINGS.name)}))) == [THINGS.name]
