"""The chain of heartbeats: commits missing in the log are found at the next heartbeat."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.connect.source.heartbeat import digest_of
from cdc.core.errors import HistoryLostError
from cdc.core.position import Lsn, format_lsn
from cdc.run.capture.heartbeat_chain import CapturedBeat, check_beats


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
