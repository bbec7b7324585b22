"""A transaction whose END never comes is found when a later commit comes, however the messages are cut into parts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.netting.begun import BegunTransactions
from cdc.columns.netting.ends import read_ends
from cdc.core.position import Lsn


@dataclass(frozen=True, slots=True)
class Event:
    tx_id: int
    is_end: bool


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[Event], int | None]:
    """What a connector sends that ends at any message, and is started again at that transaction or an earlier one.

    And the transaction whose END it does not send, if there is one.
    """
    events, tx_id, lost = list[Event](), 1, None
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["whole", "whole", "again", "within", "back", "lost"]))
        if kind == "lost" and lost is None:
            lost = tx_id
        events.append(Event(tx_id, is_end=False))
        if kind == "again":
            events.append(Event(tx_id, is_end=False))
        if kind == "back":
            back = draw(st.integers(1, tx_id))
            events += [Event(each, is_end) for each in range(back, tx_id) for is_end in (False, True) if each != lost]
            events.append(Event(tx_id, is_end=False))
        if lost != tx_id:
            events.append(Event(tx_id, is_end=True))
        tx_id += 1
    return [*events, Event(tx_id, is_end=False), Event(tx_id, is_end=True)], lost


def to_value(event: Event) -> bytes:
    # commits are in the order of their LSNs
    found = {"status": "END" if event.is_end else "BEGIN", "id": f"{event.tx_id}:{10 * event.tx_id}"}
    further = {"event_count": 0, "data_collections": []} if event.is_end else {}
    return json.dumps({**found, "ts_ms": 1, **further}, separators=(",", ":")).encode()


def find_lost(events: Sequence[Event], cuts: set[int]) -> int | None:
    begun, places = BegunTransactions(Lsn(0)), [0, *sorted(cuts), len(events)]
    for start, stop in pairwise(places):
        values = [to_value(event) for event in events[start:stop]]
        ends = [at for at, event in enumerate(events[start:stop]) if event.is_end]
        found = begun.find_lost(range(len(values)), values, read_ends("t", ends, [values[at] for at in ends]))
        if found is not None:
            return found
    return None


@given(orders(), st.data())
def test_a_lost_end_is_found_and_no_other(order: tuple[list[Event], int | None], data: st.DataObject) -> None:
    events, lost = order
    cuts = data.draw(st.sets(st.integers(0, len(events))), "cuts")
    assert find_lost(events, cuts) == lost


def test_a_transaction_that_is_under_way_is_not_lost() -> None:
    begun = BegunTransactions(Lsn(0))
    values = [to_value(Event(1, is_end=False)), to_value(Event(1, is_end=False))]
    assert begun.find_lost([0, 1], values, read_ends("t", [], [])) is None
    assert begun.find_lost([], [], read_ends("t", [], [])) is None
    end = to_value(Event(1, is_end=True))
    assert begun.find_lost([3], [end], read_ends("t", [3], [end])) is None


def test_one_that_the_copy_may_have_is_not_lost() -> None:
    """A first capture was given up within transaction 1; the second one's copy lies between 1 and 3."""
    events = [Event(1, is_end=False), Event(2, is_end=False), Event(2, is_end=True), Event(3, is_end=False)]
    further = [Event(3, is_end=True), Event(4, is_end=False), Event(5, is_end=False), Event(5, is_end=True)]
    begun = BegunTransactions(Lsn(25), behind_end=False)
    for part, lost in ((events, None), (further, 4)):
        values = [to_value(event) for event in part]
        ends = [at for at, event in enumerate(part) if event.is_end]
        assert begun.find_lost(range(len(values)), values, read_ends("t", ends, [values[at] for at in ends])) == lost
