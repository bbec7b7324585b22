"""How the files of tests are dealt out to the processes of a run."""

from pathlib import Path

from tests.support.scheduling import find_unit, order_files

BUSY = [Path(f"busy{number}") for number in range(8)]
"""Files without servers."""


def test_files_without_servers_run_between_those_that_wait_for_them() -> None:
    patience = {Path("usual"): 900.0, **dict.fromkeys(BUSY, 0.0), Path("long"): 1800.0}
    order = order_files(patience)
    assert order[0] == Path("long")
    assert order[3] == Path("usual"), "half of what runs early is in front of it"
    assert [file for file in order if file in BUSY] == BUSY
    assert order[-4:] == BUSY[-4:]


def test_files_without_servers_alone_keep_their_order() -> None:
    assert order_files(dict.fromkeys(BUSY, 0.0)) == BUSY


def test_a_room_whose_tests_disturb_each_other_is_dealt_out_as_one_file() -> None:
    room = "tests/faults/parts/"
    assert {find_unit(f"{room}test_{name}.py::test") for name in ("one", "other")} == {room}
    assert find_unit("tests/faults/test_kills.py::test") == "tests/faults/test_kills.py"
