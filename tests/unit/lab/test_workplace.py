"""A workplace removes what was made in it, whatever ends the lab."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from kafka.errors import KafkaError

from cdc.config.init import TemplateValues
from cdc.core.errors import UnreachableError
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Parts, Workplace, open_workplace

NOWHERE = Parts(TemplateValues(host="127.0.0.1", port=1, bootstrap="127.0.0.1:1"), "secret")


def says_nothing(_: str) -> None:
    pass


@contextmanager
def noted(log: list[str]) -> Iterator[None]:
    try:
        yield
    finally:
        log.append("removed")


@pytest.mark.parametrize("ending", [None, ValueError, KeyboardInterrupt], ids=["success", "failure", "Ctrl-C"])
def test_what_was_made_is_removed(ending: type[BaseException] | None) -> None:
    log: list[str] = []

    def work(place: Workplace) -> None:
        place.keep(noted(log))
        if ending:
            raise ending

    if ending is None:
        with open_workplace(NOWHERE, 1, says_nothing) as place:
            work(place)
    else:
        with pytest.raises(ending), open_workplace(NOWHERE, 1, says_nothing) as place:
            work(place)
    assert log == ["removed"]


@pytest.mark.parametrize("error", [KafkaError("gone"), psycopg.OperationalError("gone")])
def test_an_error_of_a_driver_is_one_line(error: Exception) -> None:
    with pytest.raises(UnreachableError, match="a part went away") as told, open_workplace(NOWHERE, 1, says_nothing):
        raise error
    assert str(told.value).endswith("gone → see `cdc parts`")


def test_a_part_that_is_down_is_one_line() -> None:
    with pytest.raises(UnreachableError, match="a part went away"), open_workplace(NOWHERE, 1, says_nothing) as place:
        place.database("x")


def test_a_seed_gives_one_sequence() -> None:
    drawn = []
    for seed in (7, 7, 8):
        with open_workplace(NOWHERE, seed, says_nothing) as place:
            drawn.append([place.random.random() for _ in range(3)])
    assert drawn[0] == drawn[1] != drawn[2]


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(UnreachableError, match="waited 0 s in vain: a miracle → run the lab again"):
        wait_for(lambda: False, "a miracle", 0)
    with socket.socket() as found:
        wait_for(lambda: found.fileno() > 0, "a socket")
