import json

from hypothesis import given
from hypothesis import strategies as st

from cdc.core.position import Lsn, Position, format_lsn, parse_lsn
from cdc.core.refusal import Refusal
from cdc.core.transaction import TransactionEnd, cut_runs, parse_end, unapplied


def message(**changes: object) -> bytes:
    counts = [{"data_collection": "public.a", "event_count": 2}]
    end = {"status": "END", "id": "7:1001", "event_count": 2, "data_collections": counts, "ts_ms": 5}
    return json.dumps({**end, **changes}).encode()


def test_reads_an_end_and_passes_a_begin() -> None:
    assert parse_end("t", 3, message()) == TransactionEnd(3, 7, Lsn(1001), 5, {"public.a": 2})
    assert parse_end("t", 2, b'{"status":"BEGIN","id":"7:1000"}') is None


def test_an_end_whose_counts_do_not_add_up_is_refused() -> None:
    assert isinstance(parse_end("t", 3, message(event_count=3)), Refusal)


@given(
    st.binary() | st.none() | st.recursive(st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_are_an_event_or_a_refusal(value: bytes | None) -> None:
    assert isinstance(parse_end("t", 0, value), Refusal)


sizes = st.lists(st.integers(0, 9), max_size=30)


def ends_of(counts: list[int]) -> list[TransactionEnd]:
    return [TransactionEnd(3 * n, n, Lsn(100 + n), 0, {"public.a": c} if c else {}) for n, c in enumerate(counts)]


@given(sizes, st.integers(1, 20), st.integers(-1, 90))
def test_runs_tile_the_ends_within_the_budget(counts: list[int], budget: int, until: int) -> None:
    ends = ends_of(counts)
    runs = cut_runs(ends, budget, until)
    assert [end for run in runs for end in run.ends] == ends
    for number, run in enumerate(runs):
        size = sum(end.changes for end in run.ends)
        assert size <= budget or len(run.ends) == 1 or (number == 0 and run.ends[-2].offset < until)
    if ends and runs:
        assert runs[0].last.offset >= min(until, ends[-1].offset)


@given(sizes, st.integers(0, 29), st.integers(0, 29))
def test_redelivered_transactions_are_dropped_whole(counts: list[int], applied: int, back: int) -> None:
    first = ends_of(counts)
    again = [TransactionEnd(1000 + e.offset, e.tx_id, e.lsn, 0, e.counts) for e in first[back:]]
    more = TransactionEnd(5000, 999, Lsn(9999), 0, {})
    last = first[applied] if applied < len(first) else None
    position = Position(1, last.offset, last.lsn, last.tx_id) if last else None
    expected = [*first[applied + 1 :], more] if last else [*first, more]
    assert unapplied([*first, *again, more], position) == expected


@given(st.integers(0, 2**64 - 1))
def test_lsn_text_round_trips(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn
