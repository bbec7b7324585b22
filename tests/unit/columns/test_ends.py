"""The order of commits: ENDs read, redeliveries dropped, runs of whole transactions cut."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.netting.ends import Ends, UnreadableEventError, bundle_ends, concat_ends, read_ends, to_columns
from cdc.columns.netting.runs import cut_run, cut_runs, drop_applied
from cdc.core.position import Lsn, Position, format_lsn, parse_lsn
from cdc.core.transaction import TransactionEnd


def message(**changes: object) -> bytes:
    counts = [{"data_collection": "public.a", "event_count": 2}]
    end = {"status": "END", "id": "7:1001", "event_count": 2, "data_collections": counts, "ts_ms": 5}
    return json.dumps({**end, **changes}).encode()


def test_reads_an_end_and_passes_a_begin() -> None:
    ends = read_ends("t", [2, 3], [b'{"status":"BEGIN","id":"7:1000"}', message()])
    assert list(ends.values()) == [TransactionEnd(3, 7, Lsn(1001), 5, {"public.a": 2})]


def test_an_end_whose_counts_do_not_add_up_is_refused() -> None:
    with pytest.raises(UnreadableEventError, match=r"t\[0\]@3: .*3 events, but the tables have 2"):
        read_ends("t", [3], [message(event_count=3)])


@given(
    st.binary() | st.none() | st.recursive(st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_other_bytes_are_refused(value: bytes | None) -> None:
    with pytest.raises(UnreadableEventError):
        read_ends("t", [0], [value])


sizes = st.lists(st.integers(0, 9), max_size=30)


def ends_of(counts: list[int]) -> list[TransactionEnd]:
    return [TransactionEnd(3 * n, n, Lsn(100 + n), 0, {"public.a": c} if c else {}) for n, c in enumerate(counts)]


@given(sizes, st.integers(1, 20), st.integers(-1, 90))
def test_runs_tile_the_ends_within_the_budget(counts: list[int], budget: int, until: int) -> None:
    ends = ends_of(counts)
    runs = [list(run.values()) for run in cut_runs(to_columns(ends), budget, until)]
    assert [end for run in runs for end in run] == ends
    for number, run in enumerate(runs):
        size = sum(end.changes for end in run)
        assert size <= budget or len(run) == 1 or (number == 0 and run[-2].offset < until)
    if ends and runs:
        assert runs[0][-1].offset >= min(until, ends[-1].offset)
    for run, more in itertools.pairwise(runs[1:]):
        assert sum(end.changes for end in [*run, more[0]]) > budget


@given(sizes, st.integers(1, 20), st.integers(-1, 90), st.data())
def test_runs_of_a_size_that_changes_tile_the_ends(
    counts: list[int], budget: int, until: int, data: st.DataObject
) -> None:
    """As the lake's stream cuts them: of the first one, `until` is asked again and changes nothing."""
    ends, left, found = ends_of(counts), to_columns(ends_of(counts)), list[list[TransactionEnd]]()
    while len(left):
        run = cut_run(left, budget, until)
        found.append([*run.values()])
        left, budget = left.slice(len(run), len(left)), data.draw(st.integers(1, 20))
    assert [end for run in found for end in run] == ends
    if found:
        assert found[0][-1].offset >= min(until, ends[-1].offset)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=30), st.integers(1, 20))
def test_a_run_has_few_changes_of_scarce_tables(counts: list[tuple[int, int]], few: int) -> None:
    scarce = ["s.scarce", "s.none"]
    ends = [TransactionEnd(n, n, Lsn(n), 0, {"s.a": a, "s.scarce": b}) for n, (a, b) in enumerate(counts)]
    run = [*cut_run(to_columns(ends), 40, scarce=scarce, few=few).values()]
    assert run == ends[: len(run)]
    fits = [
        sum(map(sum, counts[:size])) <= 40 and sum(b for _, b in counts[:size]) <= few
        for size in range(len(counts) + 1)
    ]
    assert len(run) == max(1, sum(fits) - 1)


@given(sizes, st.integers(0, 29), st.integers(0, 29))
def test_redelivered_transactions_are_dropped_whole(counts: list[int], applied: int, back: int) -> None:
    first = ends_of(counts)
    again = [TransactionEnd(1000 + e.offset, e.tx_id, e.lsn, 0, e.counts) for e in first[back:]]
    more = TransactionEnd(5000, 999, Lsn(9999), 0, {})
    last = first[applied] if applied < len(first) else None
    position = Position(last.offset, last.lsn, last.tx_id) if last else None
    expected = [*first[applied + 1 :], more] if last else [*first, more]
    assert list(drop_applied(to_columns([*first, *again, more]), position).values()) == expected


tables = st.dictionaries(st.sampled_from(["public.a", "public.b", "s.c"]), st.integers(1, 9))


@given(st.lists(tables, max_size=9), st.integers(0, 9), st.sets(st.integers(0, 8)))
def test_columns_hold_what_values_do(counts: list[dict[str, int]], cut: int, wanted: set[int]) -> None:
    ends = [TransactionEnd(2 * n, n, Lsn(n), n, own) for n, own in enumerate(counts)]
    assert list(concat_ends([to_columns(ends[:cut]), to_columns(ends[cut:])]).values()) == ends
    whole: Ends = to_columns(ends)
    assert list(whole.slice(cut, len(ends)).values()) == ends[cut:]
    mask = np.array([n in wanted for n in range(len(ends))], np.bool_)
    assert list(whole.where(mask).values()) == [end for n, end in enumerate(ends) if n in wanted]
    assert whole.counts(["s.c"]).get("s.c", 0) == sum(own.get("s.c", 0) for own in counts)


@given(st.integers(0, 2**64 - 1))
def test_lsn_text_round_trips(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn


@pytest.mark.parametrize(
    "text", ["", "0", "/", "-1/0", "0/-1", "+1/0", " 1/0", "1/0 ", "1_0/0", "123456789/0", "x/0", "1/0/0"]
)
def test_text_that_postgres_takes_for_no_lsn_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="not an LSN"):
        parse_lsn(text)


tables = st.dictionaries(st.sampled_from("abc"), st.integers(1, 9), max_size=3)


@given(st.lists(st.tuples(tables, st.integers(0, 2)), max_size=20), st.sampled_from(["", "a", "bc", "abcd"]))
def test_a_bundle_has_all_changes_of_its_ends(drawn: list[tuple[dict[str, int], int]], followed: str) -> None:
    ends = [TransactionEnd(3 * n, n, Lsn(100 + n), 10 * n, counts) for n, (counts, _) in enumerate(drawn)]
    groups = np.cumsum([step for _, step in drawn], dtype=np.int64)
    members = [
        [e for e, group in zip(ends, groups, strict=True) if group == one] for one in dict.fromkeys(groups.tolist())
    ]
    expected = [
        (
            each[-1].offset,
            each[-1].tx_id,
            each[-1].lsn,
            each[0].committed_ms,
            sum((Counter(e.counts) for e in each), Counter()),
        )
        for each in members
    ]
    found = bundle_ends(to_columns(ends), groups)
    assert [(e.offset, e.tx_id, e.lsn, e.committed_ms, Counter(e.counts)) for e in found.values()] == expected
    assert found.changes.tolist() == [sum(counts.values()) for *_, counts in expected]
    touched = [row for row, (*_, counts) in enumerate(expected) if counts.keys() & {*followed}]
    assert found.first_touching(followed) == (touched[0] if touched else None)
