"""What the labs on databases and their logs count, on values."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cdc.lab.capture import triggers
from cdc.lab.capture.snapshot import LedgerEntry, compare
from cdc.lab.capture.triggers import OrdersWrite, count_missed, list_changes
from cdc.lab.decoding import LoggedChange, parse_change

SEEDS = st.integers(0, 2**32)
UPDATE, DELETE, INSERT = OrdersWrite.UPDATE, OrdersWrite.DELETE, OrdersWrite.INSERT


@given(SEEDS)
def test_every_round_has_what_polling_misses(seed: int) -> None:
    rounds = triggers.plan_rounds(Random(seed))
    assert rounds == triggers.plan_rounds(Random(seed))
    assert rounds[-1] == [(OrdersWrite.TRUNCATE, ())]
    assert rounds[triggers.LATE_ROUND][0][0] is OrdersWrite.LATE
    gone: set[int] = set()
    for planned in rounds[1:-1]:
        updated = [order for kind, orders in planned if kind is UPDATE for order in orders]
        assert len(updated) > len(set(updated))
        assert not gone & set(updated)
        gone |= {order for kind, orders in planned if kind is DELETE for order in orders}


def test_a_change_is_missed_whose_version_was_not_seen() -> None:
    changes = list_changes(
        [(INSERT, (1, 2)), (UPDATE, (1,)), (UPDATE, (1,)), (DELETE, (2,)), (OrdersWrite.TRUNCATE, ())]
    )
    versions = [version for version, _ in changes]
    assert versions == [(1, 1), (2, 1), (1, 2), (1, 3), (2, 0), (0, 0)]
    assert count_missed(changes, versions).total() == 0
    # the newest of the rows that are there
    assert count_missed(changes, [(1, 3)]) == {INSERT: 2, UPDATE: 1, DELETE: 1, OrdersWrite.TRUNCATE: 1}


def entries(*amounts: tuple[int, int]) -> list[LedgerEntry]:
    return [LedgerEntry(number, account, amount) for number, (account, amount) in enumerate(amounts)]


def test_entries_between_copy_and_log_are_lost_and_those_in_both_doubled() -> None:
    truth = entries((0, -5), (30, 5), (1, -7), (31, 7))
    assert compare(truth, truth) == (0, 0, 0, 0)
    assert compare(truth, [*truth[:1], *truth[2:]]) == (1, 0, 1, -5)
    assert compare(truth, [*truth[:3], *truth[2:]]) == (0, 1, 1, -7)


def test_a_line_of_the_decoded_log_is_a_change_of_a_row() -> None:
    assert parse_change("BEGIN 745") is None
    line = (
        "table public.orders: INSERT: id[integer]:1 note[text]:'it''s: [x]:2 \nhere' at[timestamp with time zone]:null"
    )
    row = {"id": "1", "note": "it's: [x]:2 \nhere", "at": "null"}
    assert parse_change(line) == LoggedChange("public.orders", "INSERT", row)
    assert parse_change("table a.orders: DELETE: id[integer]:7") == LoggedChange("a.orders", "DELETE", {"id": "7"})
    assert parse_change("table a.orders: TRUNCATE: (no-flags)") == LoggedChange("a.orders", "TRUNCATE", {})
