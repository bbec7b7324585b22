"""The chain of heartbeats: commits missing in the log are found at the next heartbeat."""

import json
from itertools import repeat
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.netting.ends import to_columns
from cdc.connect.source.heartbeat import digest_of, heartbeat_table
from cdc.core.errors import HistoryLostError
from cdc.core.position import Lsn, Offsets, Position, format_lsn
from cdc.core.transaction import TransactionEnd
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.run_reader import RunReader
from cdc.run.health import heartbeat_chain
from cdc.run.health.heartbeat_chain import CapturedBeat, HeartbeatChain, check_beats
from tests.support.debezium import PLACEHOLDER, messages
from tests.support.model import CommitOrder, Insert
from tests.unit.log.log_in_memory import LogInMemory
from tests.unit.log.stream_in_memory import SOURCE


def chain(commits: list[int], confirmed: list[int]) -> list[CapturedBeat]:
    """Beats that commit at these LSNs, nothing between them, each with the slot at its `confirmed` LSN."""
    beats = list[CapturedBeat]()
    for commit, slot in zip(commits, confirmed, strict=True):
        previous = digest_of(beats[-1].text) if beats else None
        text = json.dumps({"at": str(commit), "mark": None, "slot": format_lsn(slot), "previous": previous})
        beats.append(CapturedBeat(text, Lsn(commit)))
    return beats


def anywhere(lsn: Lsn) -> bool:
    """Slots are not what is looked at."""
    return True


@given(st.data())
def test_whole_log_passes_in_any_runs(data: st.DataObject) -> None:
    commits = sorted(data.draw(st.sets(st.integers(1, 1000), min_size=1, max_size=20)))
    confirmed = [0, *(data.draw(st.sampled_from(commits[:at])) for at in range(1, len(commits)))]
    beats, last = chain(commits, confirmed), None
    cuts = sorted(data.draw(st.sets(st.integers(0, len(beats)))))
    for start, stop in zip([0, *cuts], [*cuts, len(beats)], strict=True):
        last = check_beats(beats[start:stop], last, {0, *commits}.__contains__)
    assert last == digest_of(beats[-1].text)


@given(st.data())
def test_missing_heartbeat_is_found_at_the_next_one(data: st.DataObject) -> None:
    commits = [10, 20, 30, 40, 50]
    beats = chain(commits, [0, 10, 20, 30, 40])
    missing = data.draw(st.integers(1, 3))
    with pytest.raises(HistoryLostError, match=f"lacks commits before {format_lsn(commits[missing + 1])}.*recapture"):
        check_beats([*beats[:missing], *beats[missing + 1 :]], None, anywhere)


def test_heartbeats_may_be_missing_where_the_publication_left_them_out() -> None:
    beats = chain([10, 20, 30, 40, 50], [0, 10, 20, 30, 40])
    left = [beats[0], beats[3], beats[4]]
    assert check_beats(left, None, anywhere, [Lsn(35)]) == digest_of(beats[-1].text)
    for elsewhere in (5, 45):
        with pytest.raises(HistoryLostError):
            check_beats(left, None, anywhere, [Lsn(elsewhere)])


def test_moved_slot_is_found_without_a_missing_heartbeat() -> None:
    # 28 was committed behind the slot's new place, before the beat
    beats = chain([10, 20, 30], [0, 10, 25])
    with pytest.raises(HistoryLostError, match=r"its slot at 0/19, and no commit of the log is at that LSN"):
        check_beats(beats, None, {0, 10, 20, 28, 30}.__contains__)


def test_source_set_back_is_found_at_its_first_heartbeat() -> None:
    before = chain([10, 20, 30], [0, 10, 20])
    restored = chain([10, 60], [0, 10])[1]
    with pytest.raises(HistoryLostError, match="set back to an older state"):
        check_beats([restored], digest_of(before[-1].text), anywhere)


def test_deleted_heartbeat_is_found() -> None:
    before, anew = chain([10, 20], [0, 10]), chain([30], [20])
    with pytest.raises(HistoryLostError):
        check_beats(anew, digest_of(before[-1].text), anywhere)


def test_duplicate_heartbeat_counts_once() -> None:
    beats = chain([10, 20, 30], [0, 10, 20])
    assert check_beats([beats[0], beats[1], beats[1], beats[2]], None, anywhere) == digest_of(beats[2].text)


def test_heartbeats_of_older_versions_begin_a_chain() -> None:
    old = CapturedBeat("2026-01-01 00:00:00+00", Lsn(10))
    text = json.dumps({"at": "now", "slot": None, "previous": digest_of(old.text)})
    assert check_beats([old, CapturedBeat(text, Lsn(20))], None, anywhere) == digest_of(text)


class OpenedChain(HeartbeatChain):
    """A chain over a log that has these heartbeats; `asked`: what is looked up in it."""

    def __init__(self, beats: list[CapturedBeat]) -> None:
        table = heartbeat_table(SOURCE)
        changes = [
            Insert(table.name, CommitOrder(beat.commit, 1), ("p",), {"pipeline": "p", "beat": beat.text})
            for beat in beats
        ]
        whole = messages(table, changes, 1)[0]
        found = [whole.slice(at, at + 1) for at in range(len(whole))]
        log = LogInMemory({f"p.{table.name}": found}, repeat({}))
        reader = RunReader(cast("StandingConsumer", log), "p", PLACEHOLDER, 0.0)
        self.asked: list[Lsn] = []
        super().__init__(reader, SOURCE, "p", Lsn(0), self.is_asked)
        self.beats, self.table, self.position = beats, str(table.name), Position(0, Lsn(0), 1)
        self.start: Offsets = {}

    def is_asked(self, lsn: Lsn) -> bool:
        self.asked.append(lsn)
        return True

    @property
    def kept(self) -> int:
        return len(self._state.commits)

    def read(self, *lsns: int) -> None:
        """Read the commits at these LSNs in one run."""
        commits = {beat.commit for beat in self.beats}
        run = to_columns([TransactionEnd(n, n, Lsn(n), 0, {self.table: 1} if n in commits else {}) for n in lsns])
        found = self.check(run, self.position, self.start)
        self.keep(found)
        self.position, self.start = Position(lsns[-1], Lsn(lsns[-1]), lsns[-1], beat=found.digest), found.next_offsets


def without_slots(beats: list[CapturedBeat], mark: str | None) -> list[CapturedBeat]:
    """The same beats from a capture without our classes, or of the toolkit's own: they have a mark."""
    told = list[CapturedBeat]()
    for beat in beats:
        previous = digest_of(told[-1].text) if told else None
        told.append(CapturedBeat(json.dumps({"mark": mark, "slot": None, "previous": previous}), beat.commit))
    return told


def test_chain_without_slot_lsns_keeps_no_commit() -> None:
    opened = OpenedChain(without_slots(chain([10, 500], [0, 10]), None))
    opened.read(*range(1, 11))
    for at in range(11, 1011):
        opened.read(at)
        assert opened.kept == 0


def test_chain_keeps_what_the_next_slot_lsn_may_be() -> None:
    opened = OpenedChain(chain([10, 20, 30], [0, 10, 15]))
    opened.read(*range(1, 25))
    # from the slot of the beat at 20 on
    assert opened.kept == len(range(10, 25))
    opened.read(*range(25, 31))
    # the first beat's slot is from before this stream
    assert (opened.kept, opened.asked) == (len(range(15, 31)), [0])


def test_chain_keeps_commits_beside_the_beats_of_waiting_clients() -> None:
    opened = OpenedChain(without_slots(chain([10, 20], [0, 10]), "token"))
    opened.read(*range(1, 25))
    assert opened.kept == len(range(1, 25))


def test_chain_of_rare_beats_keeps_so_many_commits_and_looks_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_chain, "MOST_COMMITS", 5)
    opened = OpenedChain(chain([10, 90], [0, 10]))
    for at in range(1, 91):
        opened.read(at)
        assert opened.kept <= 5
    assert opened.asked == [0, 10]


@pytest.mark.parametrize(
    ("mark", "beside", "is_routine"),
    [(None, {}, True), ("token", {}, False), (None, {"public.other": 1}, False), ("", {}, False)],
)
def test_routine_are_the_connectors_heartbeats_alone(
    mark: str | None, beside: dict[str, int], is_routine: bool
) -> None:
    opened = OpenedChain(without_slots(chain([10, 20], [0, 10]), mark))
    run = to_columns([TransactionEnd(n, n, Lsn(n), 0, {opened.table: 1, **beside}) for n in (10, 20)])
    assert opened.check(run, opened.position, {}).are_routine == is_routine
    # no heartbeat, or one that is not read any more
    for other in (to_columns([TransactionEnd(30, 30, Lsn(30), 0, {"public.other": 1})]), run.slice(0, 0)):
        assert not opened.check(other, opened.position, {}).are_routine


def test_a_text_that_is_no_heartbeat_is_no_routine() -> None:
    opened = OpenedChain([CapturedBeat("2026-01-01 00:00:00+00", Lsn(10))])
    run = to_columns([TransactionEnd(10, 10, Lsn(10), 0, {opened.table: 1})])
    assert not opened.check(run, opened.position, {}).are_routine
