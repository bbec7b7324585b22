"""The bulkhead around each table of a follower, and around each saved search."""

import threading

import pytest

from cdc.core.errors import CopyLostError, PreconditionError, TableStoppedError
from cdc.core.table import TableName
from cdc.sinks.bulkheads import REMEDY, TableBulkhead, attempt

FINE, BAD, LOST = (TableName("public", name) for name in ("fine", "bad", "lost"))


class BrokerError(Exception):
    pass


@pytest.mark.parametrize("at_once", [1, 3])
def test_whatever_a_table_meets_stops_it_alone(at_once: int) -> None:
    done: list[TableName] = []

    def work(name: TableName) -> None:
        if name == BAD:
            raise KeyError("x")
        if name == LOST:
            raise CopyLostError("it is gone")
        done.append(name)

    stops = TableBulkhead("search", at_once=at_once).collect(work, [BAD, LOST, FINE])
    assert done == [FINE]
    assert [*stops] == [BAD, LOST]
    assert stops[BAD].what.startswith("public.bad: an error that cdc does not know (test_bulkheads.py:")
    assert (stops[BAD].remedy, stops[BAD].is_lost, stops[LOST].is_lost) == (REMEDY, False, True)


@pytest.mark.parametrize("error", [PreconditionError("index is blocked"), BrokerError("down"), OSError("no disk")])
def test_what_all_tables_need_stops_none(error: Exception) -> None:
    def work(name: TableName) -> None:
        if name == BAD:
            raise error

    for at_once in (1, 2):
        with pytest.raises(type(error)) as raised:
            TableBulkhead("search", (BrokerError, OSError), at_once).collect(work, [FINE, BAD])
        assert raised.value is error
        assert raised.value.__cause__ is None


def test_tables_are_worked_at_together() -> None:
    both = threading.Barrier(2, timeout=30)

    def meet(name: TableName) -> None:
        both.wait()

    assert TableBulkhead("search", at_once=2).collect(meet, [FINE, BAD]) == {}


def test_an_own_stop_of_a_table_keeps_its_words() -> None:
    def work(name: TableName) -> None:
        raise TableStoppedError(f"{name}: refused", "change the row")

    [stop] = TableBulkhead("search").collect(work, [BAD]).values()
    assert str(stop) == "public.bad: refused → change the row"


def test_a_saved_search_is_stopped_by_one_line() -> None:
    told: list[str] = []
    attempt("saved search 1", lambda: [][1], told.append)
    assert len(told) == 1
    assert "IndexError" in told[0]
    with pytest.raises(BrokerError):
        attempt("saved search 1", lambda: (_ for _ in ()).throw(BrokerError()), told.append, (BrokerError,))
