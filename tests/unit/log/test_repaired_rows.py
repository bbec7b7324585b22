"""Rows that a repair hands to the lake's stream: a kill at any moment leaves what the next stream puts right."""

from pathlib import Path

import pyarrow as pa
import pytest

from cdc.columns.feed import FeedRows
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.position import Lsn
from cdc.run.repair_requests import TABLE, RepairAnswer, RepairRequest, RepairRequests
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.feed.keyed_rows import find_rows, key_schema
from cdc.sinks.lake.feed.patch import patch_rows
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.metadata.cuts import Cut, Cuts
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables import open_writer
from tests.unit.log.stream_in_memory import OLD, Stream, copy_old_table, use_no_kafka

ASKED = (110, 120, 999)
"""A row that is changed, one that is taken away, one that no source has."""


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlacedLake:
    use_no_kafka(monkeypatch)
    found = in_folder(tmp_path)
    copy_old_table(found)
    Stream(found).follow(110, 120, 140)
    return found


def rows_of(*pairs: tuple[int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "was": was} for n, was in pairs], arrow_schema(OLD))


def keys_of(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": n} for n in numbers], key_schema(OLD))


def spoil(lake: PlacedLake) -> int:
    """The table's version behind that."""
    writer = open_writer(lake, OLD, "another")
    put = FeedRows(rows_of((110, "spoilt"), (999, "spoilt")), keys_of(120))
    assert not patch_rows(writer, put, writer.snapshot.version, lake.app_id, anew=True)
    return writer.snapshot.version


def ask(lake: PlacedLake, since: int, lsn: int = 139) -> str:
    table_id = open_writer(lake, OLD).snapshot.table_id
    right = RepairRequest(OLD.name, rows_of((110, "x"), (120, "x")), keys_of(999), table_id, since, Lsn(lsn))
    return RepairRequests(lake.indexes / "repairs").submit(right, TABLE)


def last_cut(lake: PlacedLake) -> Cut:
    cut = Cuts(lake).last()
    assert cut is not None
    return cut


def present(lake: PlacedLake, *numbers: int) -> list[tuple[int, str]]:
    """The rows of these keys at the newest cut."""
    writer = open_writer(lake, OLD)
    found = find_rows(writer.storage, writer.snapshot, OLD, keys_of(*numbers))
    assert writer.snapshot.version == last_cut(lake).versions[str(OLD.name)]
    return sorted((row["id"], row["was"]) for row in found.to_pylist())


def told_since(lake: PlacedLake, cut: Cut) -> set[int]:
    """The keys that the lake's followers hear of."""
    parts = list(LakeFeed(None, lake).changes(OLD, cut, last_cut(lake)))
    return {n for part in parts for n in (*part.rows["id"].to_pylist(), *part.gone["id"].to_pylist())}


def die(*_: object, **__: object) -> None:
    raise Killed


def follow_each(stream: Stream, *transactions: int) -> None:
    for each in transactions:
        stream.follow(each)


@pytest.mark.parametrize(
    ("of", "name"),
    [
        pytest.param(DeltaFollower, "patch", id="asked, and not written"),
        pytest.param(Cuts, "add", id="written, and in no cut"),
        pytest.param(RepairRequests, "answer", id="in a cut, and not answered"),
    ],
)
def test_a_kill_leaves_what_the_next_stream_does(
    lake: PlacedLake, monkeypatch: pytest.MonkeyPatch, of: type, name: str
) -> None:
    before, id = last_cut(lake), ask(lake, spoil(lake))
    with monkeypatch.context() as patched:
        patched.setattr(of, name, die)
        # the first run has what was begun before; then rows are put right
        killed = Stream(lake)
        with pytest.raises(Killed):
            follow_each(killed, 150, 160)
    after = Stream(lake)
    follow_each(after, 150, 160)
    assert present(lake, *ASKED) == [(110, "x"), (120, "x")]
    assert told_since(lake, before) >= {*ASKED}
    answer = after.requests.take_answer(id)
    assert answer is not None
    assert answer.offset <= last_cut(lake).position.end_offset
    assert not answer.reason
    assert not after.requests.is_pending()


def test_keys_that_changed_since_are_left_out(lake: PlacedLake) -> None:
    since = open_writer(lake, OLD).snapshot.version
    spoil(lake)
    stream = Stream(lake)
    stream.follow(150)
    id = ask(lake, since)
    stream.follow(160)
    assert present(lake, *ASKED) == [(110, "spoilt"), (999, "spoilt")]
    assert stream.requests.take_answer(id) == RepairAnswer(160, left=3)


def test_rows_wait_until_the_lake_has_their_lsn(lake: PlacedLake) -> None:
    id, stream = ask(lake, spoil(lake), lsn=155), Stream(lake)
    stream.follow(150)
    stream.follow(160)
    assert stream.requests.take_answer(id) is None
    assert stream.requests.is_pending()


def test_another_table_is_not_written(lake: PlacedLake) -> None:
    requests = RepairRequests(lake.indexes / "repairs")
    request = RepairRequest(OLD.name, rows_of((110, "other")), keys_of(), "another id", 0, Lsn(1))
    stream = Stream(lake)
    stream.follow(150)
    id = requests.submit(request, TABLE)
    stream.follow(160)
    answer = requests.take_answer(id)
    assert answer is not None
    assert "another table" in answer.reason
    assert present(lake, 110) == [(110, "x")]


def test_a_table_that_has_lost_files_ends_its_repair_and_not_the_stream(lake: PlacedLake) -> None:
    stream = Stream(lake)
    stream.follow(150)
    writer = open_writer(lake, OLD, "another")
    snapshot = writer.snapshot
    right = RepairRequest(
        OLD.name, rows_of((110, "x")), keys_of(999), snapshot.table_id, snapshot.version, Lsn(139), anew=True
    )
    id = stream.requests.submit(right, TABLE)
    writer.storage.delete([file.path for file in snapshot.files.values()])
    stream.follow(160)
    answer = stream.requests.take_answer(id)
    assert answer is not None
    assert "gone" in answer.reason
    # two things, as everywhere: what happened, and what helps
    assert answer.refusal is not None
    assert "→" not in answer.refusal.what
    assert answer.refusal.remedy
    assert not stream.requests.is_pending()


def test_an_index_that_lacks_a_row_makes_no_second_one(lake: PlacedLake) -> None:
    """Its files are verified when they are read; in memory, it might still be wrong."""
    writer = open_writer(lake, OLD)
    since = writer.snapshot.version
    writer.rows.index_new_files()
    index = writer.rows._index
    index._runs = []
    put = FeedRows(rows_of((110, "y")), keys_of())
    patch_rows(writer, put, since, lake.app_id, anew=False)
    twice = find_rows(writer.storage, writer.snapshot, OLD, keys_of(110))
    assert sorted(twice["was"].to_pylist()) == ["x", "y"]
    patch_rows(writer, put, writer.snapshot.version, lake.app_id, anew=True)
    assert find_rows(writer.storage, writer.snapshot, OLD, keys_of(110))["was"].to_pylist() == ["y"]


def test_a_damaged_request_is_dropped_and_a_whole_one_comes_back(tmp_path: Path) -> None:
    requests = RepairRequests(tmp_path / "repairs")
    request = RepairRequest(OLD.name, rows_of((1, "a"), (2, "b")), keys_of(3), "an id", 7, Lsn(8), anew=True)
    id = requests.submit(request, TABLE)
    assert {path.stat().st_mode & 0o077 for path in (requests.folder, *requests.folder.iterdir())} == {0}
    whole = (requests.folder / f"{id}{TABLE}").read_bytes()
    (requests.folder / f"damaged{TABLE}").write_bytes(whole[: len(whole) // 2])
    assert requests.read(TABLE) == {id: request}
    assert [path.name for path in requests.folder.iterdir()] == [f"{id}{TABLE}"]
    requests.withdraw([id])
    assert not requests.is_pending()


def test_an_erasure_leaves_no_row_of_a_repair(tmp_path: Path) -> None:
    requests = RepairRequests(tmp_path / "repairs")
    id = requests.submit(RepairRequest(OLD.name, rows_of((1, "a")), keys_of(3), "an id"), TABLE)
    (requests.folder / "cut-off.new").write_bytes(b"a row")
    assert requests.refuse_all("an erasure has begun", "repair again") == 1
    assert [path.name for path in requests.folder.iterdir()] == [f"{id}.answer"]
    assert requests.take_answer(id) == RepairAnswer(0, reason="an erasure has begun", remedy="repair again")
