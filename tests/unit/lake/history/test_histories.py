"""A table's history has every committed version once, whatever batches brought it, and whatever died between."""

import hashlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.position import Bookmark, LogStart, Lsn
from cdc.core.table import Table
from cdc.sinks.lake import layout
from cdc.sinks.lake.apply import apply as applying
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.history.chain import digest_batch, find_break
from cdc.sinks.lake.history.epochs import list_epochs
from cdc.sinks.lake.history.erased import restore_digests
from cdc.sinks.lake.history.erasing import erase_rows
from cdc.sinks.lake.history.facts import Gap
from cdc.sinks.lake.history.shape import ENDS, history_name, history_table
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.lake.table.writer import TableWriter
from tests.contract.delta_harness import batch_of as columns_of
from tests.contract.followers import SYSTEM, Crash, batch_of, end
from tests.support.examples import examples
from tests.support.histories import THINGS, Sent, histories
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables import write_copy
from tests.support.model import Change, CommitOrder, Delete, Insert, Key, Row, Truncate, Update

BEFORE: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": f"old {n}"} for n in range(3)}
COPIED = 5
"""LSN of the first copy; transaction n commits at 10 n."""


class Keeping:
    """A lake whose table `things` has a history, and the process that applies to it."""

    def __init__(self, lake: PlacedLake) -> None:
        self.lake = lake
        self.restart()
        self.copy(BEFORE, COPIED)
        self.follower.first_cut(0)

    def restart(self, *, is_kept: bool = True) -> None:
        settings = DeltaSettings(kind="delta", path=self.lake.path)
        indexes = self.lake.indexes / "index"
        self.follower = DeltaFollower(settings, self.lake, indexes, histories=[THINGS.name] if is_kept else [])
        self.follower.prepare([THINGS])

    def copy(self, rows: dict[Key, Row], lsn: int, *, anew: bool = False, applied: int | None = None) -> None:
        mark = Bookmark(Lsn(lsn), SYSTEM, 1)
        self.follower.load(THINGS, [write_copy(self.lake, THINGS, rows.values())], mark, anew=anew, applied=applied)

    def apply(self, history: list[tuple[int, Sent]]) -> None:
        batch, position = batch_of(history)
        self.follower.apply(columns_of(batch), position)

    def die_before_the_table(self, history: list[tuple[int, Sent]]) -> None:
        """The history is committed, and its table is not."""
        with patch.object(applying, "apply_effect", side_effect=Crash), suppress(Crash):
            self.apply(history)
        self.restart()

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the history in the newest cut."""
        name, cut = history_name(THINGS.name), self.follower.cuts.last()
        assert cut
        log = layout.open_owned_log(self.lake, name, cut.versions[str(name)])
        assert log
        table = layout.table_of(log.snapshot)
        assert table
        storage = self.lake.table_storage(name)
        parts = [part for file in log.snapshot.files.values() for part in live_rows(storage, Share(file), table)]
        return [row for part in parts for row in part.to_pylist()]

    def table(self) -> Table:
        return history_table(THINGS)


def as_of(rows: list[dict[str, Any]], lsn: int) -> dict[Key, Row]:
    """The table at an LSN, by its history."""
    last = dict[Key, dict[str, Any]]()
    for row in sorted(rows, key=lambda row: row["_sequence"]):
        if row["_lsn"] <= lsn:
            last[row["id"],] = row
    going = {key: row for key, row in last.items() if row["_change"] not in ENDS}
    return {key: {name: row[name] for name in THINGS.column_names} for key, row in going.items()}


def ranked(number: int, sent: Sent) -> Sent:
    """A transaction whose changes have the offset of its END for their rank, as the log has them."""
    offset = end(number).offset
    changes = [replace(change, place=CommitOrder(offset, change.place.total_order)) for change in sent.changes]
    return Sent(tuple(changes), sent.rows)


def batches_of(rows: list[dict[str, Any]], table: Table) -> list[tuple[int, str, str]]:
    """The batches of a history's rows: number, chain and digest."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["_sequence"]):
        found.setdefault((row["_batch"], row["_chain"]), []).append(row)
    schema = arrow_schema(table)
    return [
        (number, chain, digest_batch(pa.Table.from_pylist(found[number, chain], schema), table))
        for number, chain in sorted(found)
    ]


@pytest.mark.parametrize("tamper", ["changed", "missing", "added"])
def test_the_chain_finds_a_past_that_somebody_tampered_with(tmp_path: Path, tamper: str) -> None:
    keeping = Keeping(in_folder(tmp_path))
    for number in range(1, 6):
        keeping.apply([put(number)])
    rows, table = keeping.rows(), keeping.table()
    assert find_break(batches_of(rows, table)) is None
    batch = next(row["_batch"] for row in rows if row["small"] == 3)
    match tamper:
        case "changed":
            tampered = [{**row, "small": 30} if row["_batch"] == batch else row for row in rows]
        case "missing":
            tampered = [row for row in rows if row["_batch"] != batch]
        case _:
            tampered = [*rows, {**next(row for row in rows if row["_batch"] == batch), "id": 9}]
    assert find_break(batches_of(tampered, table)) == batch


def count_of(changes: list[Change]) -> int:
    return sum(not isinstance(change, Truncate) for change in changes)


@examples(60)
@given(histories(BEFORE), st.randoms(use_true_random=False))
def test_a_history_has_every_version_once(
    tmp_path_factory: pytest.TempPathFactory, history: list[Sent], random: Random
) -> None:
    keeping = Keeping(in_folder(tmp_path_factory.mktemp("lake")))
    numbered = [(number, ranked(number, sent)) for number, sent in enumerate(history, 1)]
    done = 0
    while done < len(numbered):
        until = done + random.randint(1, 3)
        if random.random() < 0.3:
            keeping.die_before_the_table(numbered[done:until])
            assert keeping.follower.highest_offset() >= keeping.follower.tables.all()[THINGS.name].offset
            # at least as far as the furthest has come (`highest_offset`)
            until += random.randint(0, 2)
        if random.random() < 0.2:
            keeping.restart()
        keeping.apply(numbered[done:until])
        done = until
    rows = keeping.rows()
    assert find_break(batches_of(rows, keeping.table())) is None
    assert as_of(rows, COPIED) == BEFORE
    for number, sent in numbered:
        assert as_of(rows, 10 * number) == sent.rows, number
    kinds = [row["_change"] for row in rows]
    assert kinds.count("copy") == len(BEFORE)
    expected = count_of([change for _, sent in numbered for change in sent.changes])
    assert len(kinds) - kinds.count("copy") - kinds.count("truncate") == expected
    for row in rows:
        if row["_change"] != "copy":
            assert row["_committed_at"].timestamp() * 1000 == pytest.approx(
                1_700_000_000_000 + row["_lsn"] // 10, abs=1
            )


def test_a_new_copy_goes_on_with_the_history(tmp_path: Path) -> None:
    keeping = Keeping(in_folder(tmp_path))
    keeping.follower.tables.stop({THINGS.name: "test"}, copy=[THINGS.name])
    again: dict[Key, Row] = {(1,): {"id": 1, "small": 7, "big": "new"}, (9,): {"id": 9, "small": 9, "big": None}}
    keeping.copy(again, 55, anew=True)
    keeping.follower.tables.adopt([THINGS.name])
    keeping.apply([(6, Sent((), again))])
    rows = keeping.rows()
    assert as_of(rows, 54) == BEFORE
    assert as_of(rows, 55) == again
    assert as_of(rows, 60) == again


def put(number: int) -> tuple[int, Sent]:
    """A transaction that updates row 1."""
    row: Row = {"id": 1, "small": number, "big": "x"}
    change = Update(THINGS.name, CommitOrder(0, 1), (1,), row)
    return number, ranked(number, Sent((change,), {**BEFORE, (1,): row}))


def test_a_history_that_was_not_kept_for_a_while_goes_on_with_a_copy(tmp_path: Path) -> None:
    keeping = Keeping(in_folder(tmp_path))
    keeping.apply([put(1)])
    keeping.restart(is_kept=False)
    keeping.apply([put(2)])
    keeping.restart()
    for number in (3, 4):
        keeping.apply([put(number)])
        keeping.restart()
    rows = keeping.rows()
    assert [row["_change"] for row in rows if row["id"] == 1] == ["copy", "update", "copy", "update", "update"]
    assert find_break(batches_of(rows, keeping.table())) is None
    for number in range(1, 5):
        assert as_of(rows, 10 * number) == put(number)[1].rows


def come(number: int) -> tuple[int, Sent]:
    """A transaction that inserts row 9, and updates row 1."""
    row: Row = {"id": 9, "small": 9, "big": "y"}
    _, sent = put(number)
    change = Insert(THINGS.name, CommitOrder(0, 2), (9,), row)
    return number, ranked(number, Sent((*sent.changes, change), {**sent.rows, (9,): row}))


def gaps_of(keeping: Keeping) -> tuple[Gap, ...]:
    [epoch] = list_epochs(keeping.lake, THINGS.name, None)
    assert epoch.opened is not None
    return epoch.opened.facts.gaps


@pytest.mark.parametrize("moved_on", [0, 2], ids=["as it is", "behind"])
@pytest.mark.parametrize("again", [False, True], ids=["goes on", "is opened again"])
def test_a_rebuilt_table_adds_nothing_to_a_history_that_has_its_changes(
    tmp_path: Path, moved_on: int, again: bool
) -> None:
    """Its copy is older than the last cut, and is brought on from the log."""
    keeping, sent = Keeping(in_folder(tmp_path)), [put(1), come(2), put(3)]
    for each in (*sent, (4, Sent((), sent[2][1].rows))):
        keeping.apply([each])
    before = keeping.rows()
    taken = sent[2 - moved_on]
    keeping.restart()
    keeping.copy(taken[1].rows, 10 * taken[0] + 5, anew=True, applied=end(taken[0]).offset)
    keeping.restart()
    assert keeping.follower.highest_offset() == end(3).offset
    if again:
        keeping.restart()
    if moved_on:
        batch, _ = batch_of(sent[3 - moved_on :])
        keeping.follower.catch_up(columns_of(batch))
    keeping.follower.tables.adopt([THINGS.name])
    keeping.apply([(5, Sent((), sent[2][1].rows))])
    assert keeping.rows() == before
    keeping.apply([put(6)])
    rows = keeping.rows()
    assert len(rows) == len(before) + 1
    assert gaps_of(keeping) == ()
    assert find_break(batches_of(rows, keeping.table())) is None


def test_the_copy_of_a_source_that_was_put_back_goes_into_the_history(tmp_path: Path) -> None:
    """It is older than the last cut, too, and what was followed since is no past of it."""
    keeping = Keeping(in_folder(tmp_path))
    for number in range(1, 4):
        keeping.apply([put(number)])
    number = keeping.follower.cuts.begin_capture()
    keeping.copy(put(1)[1].rows, 15, anew=True)
    keeping.follower.start_over(lambda at: LogStart(0, at, number, Lsn(15)), Lsn(15), {}, 0)
    rows = keeping.rows()
    assert [row["small"] for row in rows if row["id"] == 1] == [1, 1, 2, 3, 1]
    assert len(gaps_of(keeping)) == 1


def test_a_truncate_of_an_empty_table_breaks_no_chain(tmp_path: Path) -> None:
    keeping = Keeping(in_folder(tmp_path))
    for number in (1, 2):
        keeping.apply([(number, ranked(number, Sent((Truncate(THINGS.name, CommitOrder(0, 1)),), {})))])
    keeping.apply([put(3)])
    assert find_break(batches_of(keeping.rows(), keeping.table())) is None


def sign(content: bytes) -> tuple[str, str]:
    return "somebody", hashlib.sha256(content).hexdigest()


def erase(keeping: Keeping, id: int) -> int:
    """Erase a key from the present epoch, as another process does."""
    [epoch] = list_epochs(keeping.lake, THINGS.name, None)
    assert epoch.opened is not None
    opened = epoch.opened
    writer = TableWriter(
        opened.table, keeping.lake.table_storage(epoch.name), opened.log, keeping.lake.indexes / "erase"
    )
    count = erase_rows(writer, opened.facts, ("id",), lambda rows: pc.equal(rows["id"], id), sign)
    keeping.restart()
    return count


def check_chain(keeping: Keeping, number: int) -> list[tuple[int, str, str]]:
    """The chain fits with its tombstones, and not without them. The next batch, `number`, is there for a cut."""
    keeping.apply([put(number)])
    [epoch] = list_epochs(keeping.lake, THINGS.name, None)
    assert epoch.opened is not None
    erased, rows = epoch.opened.facts.erased, batches_of(keeping.rows(), keeping.table())
    assert all(mark.signature == sign(mark.content(str(epoch.name)))[1] for mark in erased)
    assert find_break(rows) is not None
    whole = list(restore_digests(rows, erased))
    assert find_break(whole) is None
    return whole


def test_the_chain_goes_on_over_erased_rows_and_numbers_come_once(tmp_path: Path) -> None:
    keeping = Keeping(in_folder(tmp_path))
    for number in range(1, 4):
        keeping.apply([put(number)])
    gone = Delete(THINGS.name, CommitOrder(0, 1), (1,))
    keeping.apply([(4, ranked(4, Sent((gone,), {})))])
    before = keeping.rows()
    chains = {number: chain for number, chain, _ in batches_of(before, keeping.table())}
    # its copied row, three versions, and its end: the last batches have no row then
    assert erase(keeping, 1) == 5
    assert erase(keeping, 1) == 0
    whole = check_chain(keeping, 5)
    assert {number: chain for number, chain, _ in whole}.items() >= chains.items()
    assert max(row["_sequence"] for row in keeping.rows()) == max(row["_sequence"] for row in before) + 1
    # of the copy's batch another row, and the key that has come again
    assert erase(keeping, 2) == 1
    assert erase(keeping, 1) == 1
    whole = check_chain(keeping, 6)
    assert {number: chain for number, chain, _ in whole}.items() >= chains.items()
    assert {row["id"] for row in keeping.rows()} == {0, 1}
