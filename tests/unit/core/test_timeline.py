"""Which LSNs are in a source's past."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.core.errors import HistoryLostError
from cdc.core.position import Bookmark, Lsn
from cdc.core.timeline import SourceTimeline, parse_timeline_history

CLUSTER = 7
FILE = """# restored twice
1\t0/3000158\tno recovery target specified

2\t1/A0\tbefore 2026-01-01 00:00:00+00
"""


def test_a_timeline_history_file() -> None:
    assert parse_timeline_history(FILE) == {1: 0x3000158, 2: (1 << 32) + 0xA0}


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 50))
def test_only_commits_before_the_switch_are_in_the_past(mark: int, switch: int, end: int) -> None:
    past = SourceTimeline(CLUSTER, 2, Lsn(max(end, switch)), {1: Lsn(switch)})
    assert past.contains(Bookmark(Lsn(mark), CLUSTER, 1)) == (mark <= switch)
    assert past.contains(Bookmark(Lsn(mark), CLUSTER, 2)) == (mark <= past.end)
    assert not past.contains(Bookmark(Lsn(mark), CLUSTER, 3))
    assert not past.contains(Bookmark(Lsn(mark), CLUSTER + 1, 1))


def test_another_cluster_is_named() -> None:
    with pytest.raises(HistoryLostError, match=r"the source is cluster 7, public\.a was copied from 8"):
        SourceTimeline(CLUSTER, 1, Lsn(9)).check(Bookmark(Lsn(1), 8, 1), "public.a")


def test_what_a_cluster_had_before_pg_upgrade_is_in_the_past() -> None:
    past = SourceTimeline(CLUSTER, 1, Lsn(99), upgraded={8: Lsn(50)})
    past.check(Bookmark(Lsn(50), 8, 3), "public.a")
    with pytest.raises(HistoryLostError, match="not in the past"):
        past.check(Bookmark(Lsn(51), 8, 3), "public.a")


def test_a_source_that_was_set_back_is_named() -> None:
    with pytest.raises(HistoryLostError, match=r"public\.a is at 0/9 of timeline 1.*restored or failed over"):
        SourceTimeline(CLUSTER, 2, Lsn(9), {1: Lsn(8)}).check(Bookmark(Lsn(9), CLUSTER, 1), "public.a")
