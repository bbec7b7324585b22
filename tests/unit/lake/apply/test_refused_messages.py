"""A batch with messages that cannot be read: it blocks their keys or stops their table, and says so."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import DecodedBatch, Ranks, TableChanges
from cdc.columns.netting.ends import to_columns
from cdc.core.errors import PreconditionError
from cdc.core.position import Lsn, Position
from cdc.core.table_state import Followed, Stopped
from cdc.core.transaction import TransactionEnd
from cdc.sinks.lake.apply import apply as applying
from cdc.sinks.lake.apply.apply import AppliedBatch
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.history.epochs import list_epochs
from cdc.sinks.lake.history.shape import history_table
from cdc.sinks.lake.metadata.dead_letters import DeadLetters
from cdc.sinks.lake.settings import DeltaSettings
from tests.support.debezium import PLACEHOLDER, messages
from tests.support.histories import THINGS
from tests.support.lake.places import PlacedLake, in_folder
from tests.support.lake.tables import row
from tests.support.lake.tables_at import bootstrap_follower, copy, follower_of, rows_in, transact
from tests.support.model import Change, CommitOrder, Truncate, Update

DECODER = Decoder(THINGS, PLACEHOLDER)
SPOILED = b"{"


@pytest.fixture
def lake(tmp_path: Path) -> PlacedLake:
    return in_folder(tmp_path)


def update(number: int, total_order: int, key: int) -> Update:
    return Update(THINGS.name, CommitOrder(number, total_order), (key,), row(key, f"at {number}.{total_order}"))


def send(
    follower: DeltaFollower,
    number: int,
    changes: Sequence[Change],
    *,
    spoiled: int | None = None,
    has_keys: bool = True,
) -> AppliedBatch:
    """Apply these changes as one transaction; the message at place `spoiled` is no JSON."""
    [sent] = messages(THINGS, changes, 1)
    values = [SPOILED if place == spoiled else value for place, value in enumerate(sent.value)]
    # each transaction has offsets of its own
    sent = replace(
        sent, value=values, key=sent.key if has_keys else [None] * len(sent), offset=sent.offset + 100 * number
    )
    end = TransactionEnd(number, number, Lsn(number), 0, {str(THINGS.name): len(changes)})
    ends, decoded = to_columns([end]), DECODER.decode(sent)
    ranks = Ranks.of(ends).places(decoded.changes.tx_id)
    part = TableChanges(decoded.changes, ranks, decoded.refused, sent, decoded.at)
    return follower.apply(DecodedBatch(ends, {THINGS.name: part}), Position(number, Lsn(number), number))


def text_of(lake: PlacedLake, key: int) -> object:
    return rows_in(lake, THINGS)[key,]["big"]


def test_an_unreadable_message_blocks_its_key_alone(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    applied = send(follower, 10, [update(10, 1, 1), update(10, 2, 2), update(10, 3, 1)], spoiled=0)
    assert (applied.stopped, applied.blocked) == ([], {THINGS.name: (1, 2)})
    assert (text_of(lake, 1), text_of(lake, 2)) == ("copy", "at 10.2")
    # a later batch adds to the blocked key; one without a message of it says nothing
    assert send(follower, 20, [update(20, 1, 1)]).blocked == {THINGS.name: (1, 3)}
    assert send(follower, 30, [update(30, 1, 2)]).blocked == {}
    assert follower.letters.count_blocked() == {THINGS.name: (1, 3)}
    assert text_of(lake, 1) == "copy"
    assert follower.tables.states()[THINGS.name] == Followed()


def test_letters_wait_until_they_can_be_read_or_are_given_up(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    send(follower, 10, [update(10, 1, 1), update(10, 2, 1)], spoiled=0)
    [key] = follower.letters.replay(THINGS.name, DECODER).blocked
    assert len(follower.letters.all()) == 2
    plan = follower.letters.replay(THINGS.name, DECODER, [key])
    assert (len(plan.letters), plan.blocked) == (2, {})
    assert follower.letters.all() == []
    send(follower, 20, [update(20, 1, 2)])
    assert text_of(lake, 1) == "at 10.2"


def test_a_history_goes_on_with_a_copy_after_a_replay(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake, [THINGS.name])
    send(follower, 10, [update(10, 1, 1), update(10, 2, 1), update(10, 3, 2)], spoiled=0)
    [key] = follower.letters.replay(THINGS.name, DECODER).blocked
    follower.letters.replay(THINGS.name, DECODER, [key])
    send(follower, 20, [update(20, 1, 2)])
    rows = rows_in(lake, history_table(THINGS))
    texts = [[row["big"] for number, row in sorted(rows.items()) if row["id"] == key] for key in (1, 2)]
    assert texts == [["copy", "at 10.2"], ["copy", "at 10.3", "at 10.3", "at 20.1"]]


@pytest.mark.parametrize("again", [False, True], ids=["goes on", "is opened again"])
def test_a_replay_of_a_table_behind_the_last_cut_makes_no_gap_of_its_history(lake: PlacedLake, again: bool) -> None:
    """It moves the table to the cut, and the history with it: what is applied later comes once."""
    follower = bootstrap_follower(lake, [THINGS.name])
    send(follower, 10, [update(10, 1, 1), update(10, 2, 2)], spoiled=0)
    [key] = follower.letters.replay(THINGS.name, DECODER).blocked
    send(follower, 20, [update(20, 1, 1)])
    transact(follower, 30, only=[])
    follower.letters.replay(THINGS.name, DECODER, [key])
    follower = follower_of(lake, [THINGS.name]) if again else follower
    follower.highest_offset()
    send(follower, 40, [update(40, 1, 2)])
    [epoch] = list_epochs(lake, THINGS.name, None)
    assert epoch.opened is not None
    assert epoch.opened.facts.gaps == ()
    rows = rows_in(lake, history_table(THINGS))
    texts = [row["big"] for number, row in sorted(rows.items()) if row["id"] == 2]
    assert texts == ["copy", "at 10.2", "at 10.2", "at 40.1"]


def test_an_unreadable_message_without_a_key_stops_its_table(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    applied = send(follower, 10, [update(10, 1, 1)], spoiled=0, has_keys=False)
    [stop] = applied.stopped
    assert (stop.name, stop.copy, applied.blocked) == (THINGS.name, False, {})
    assert isinstance(follower.tables.states()[THINGS.name], Stopped)


def test_a_table_of_which_too_many_messages_wait_is_stopped_until_it_is_copied(
    lake: PlacedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever batches they came in; a new copy has their effect, and nothing of them is left."""
    monkeypatch.setattr(applying, "MAX_MESSAGES", 3)
    follower = bootstrap_follower(lake)
    send(follower, 10, [update(10, 1, 1)], spoiled=0)
    for number in (20, 30):
        assert send(follower, number, [update(number, 1, 1)]).stopped == []
    [stop] = send(follower, 40, [update(40, 1, 1)]).stopped
    assert stop.reason.startswith("more than 3 messages would wait; 1 message cannot be read, first ")
    send(follower, 50, [update(50, 1, 1)])
    assert len(follower.letters.all()) == 4
    copy(lake, follower, THINGS, 60, "copied again")
    assert send(follower, 70, [update(70, 1, 1)]).stopped == []
    assert text_of(lake, 1) == "at 70.1"
    assert follower.letters.all() == []
    follower.maintenance.run([])
    assert DeadLetters(lake).all() == []


def test_a_truncate_stops_a_table_with_blocked_keys(lake: PlacedLake) -> None:
    follower = bootstrap_follower(lake)
    send(follower, 10, [update(10, 1, 1)], spoiled=0)
    applied = send(follower, 20, [Truncate(THINGS.name, CommitOrder(20, 1))])
    assert [stop.reason for stop in applied.stopped] == ["TRUNCATE, while keys of it are held"]


def test_nothing_is_applied_when_a_refusal_is_to_stop_all(lake: PlacedLake) -> None:
    bootstrap_follower(lake)
    settings = DeltaSettings(kind="delta", path=lake.path, on_refusal="stop")
    follower = DeltaFollower(settings, lake, lake.indexes / "index")
    with pytest.raises(PreconditionError, match="nothing of the batch was applied"):
        send(follower, 10, [update(10, 1, 1), update(10, 2, 2)], spoiled=0)
    assert (text_of(lake, 1), text_of(lake, 2)) == ("copy", "copy")
