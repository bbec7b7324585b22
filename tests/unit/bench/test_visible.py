"""When a commit was seen: from cuts, from rows of a plain table, from the places that a search found."""

import math
from pathlib import Path

from tests.bench.world.ledger import Commit, commit_of
from tests.bench.world.log import end_of
from tests.bench.world.versions import Actions, added, newest
from tests.bench.world.visible import Cut, CutSight, PlaceSight, RowSight

FIRST, SECOND, THIRD = (Commit(xid, lsn, at) for xid, lsn, at in ((7, 100, 1.0), (8, 200, 2.0), (9, 300, 3.0)))


def test_a_cut_holds_what_ends_at_or_before_its_lsn() -> None:
    sight = CutSight([Cut(5.0, 200, 1), Cut(6.0, 250, 2)])
    seen = sight.seen_at([FIRST, SECOND, THIRD])
    assert seen[:2] == [5.0, 5.0]
    assert math.isnan(seen[2])


def test_a_transaction_over_several_tables_is_seen_with_the_last_of_them() -> None:
    sight = RowSight({Path("a"): {7: 5.0, 8: 5.0}, Path("b"): {7: 6.0}})
    seen = sight.seen_at([FIRST, SECOND])
    assert seen[0] == 6.0
    assert math.isnan(seen[1])


def test_a_place_is_found_with_the_first_search_that_found_it_or_a_later_one() -> None:
    sight = PlaceSight({7: (1, 10), 8: (1, 12), 9: (2, 1)})
    sight.find(5.0, {1: 11})
    sight.find(6.0, {1: 11, 2: 1})
    sight.find(7.0, {1: 15, 2: 1})
    assert sight.seen_at([FIRST, SECOND, THIRD]) == [5.0, 7.0, 6.0]
    assert math.isnan(sight.seen_at([Commit(99, 1, 1.0)])[0])
    assert sight.reached(1, 15)
    assert not sight.reached(3, 1)


def test_a_commit_message_is_read() -> None:
    # from a real server: the commit of 9 November 2026, 22:40:51 UTC and something
    message = bytes.fromhex("43000000000001debe580000000001debe88000303cfd6729941")
    commit = commit_of(2773, message)
    assert (commit.xid, commit.lsn) == (2773, 0x1DEBE88)
    assert commit.at == 946_684_800 + 0x000303CFD6729941 / 1e6


def test_an_end_is_read_and_nothing_else() -> None:
    end = end_of(1500, b'{"status": "END", "id": "2773:31375016", "event_count": 1}')
    assert end is not None
    assert end.commit == Commit(2773, 31375016, 1.5)
    assert end_of(1500, b'{"status": "BEGIN", "id": "2773:31375016"}') is None
    assert end_of(1500, None) is None


def test_the_newest_version_is_known_when_the_log_was_tidied(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    assert newest(tmp_path) == -1
    log.mkdir()
    for name in (f"{3:020}.checkpoint.parquet", f"{4:020}.json", "_last_checkpoint", f"{5:020}.crc"):
        (log / name).touch()
    assert newest(tmp_path) == 4


def test_moved_rows_are_no_new_rows() -> None:
    found: Actions = [{"add": {"path": "a"}}, {"add": {"path": "b", "dataChange": False}}, {"remove": {"path": "c"}}]
    assert [file["path"] for file in added(found)] == ["a"]
