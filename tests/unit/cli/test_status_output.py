"""The output of `cdc status` for people: lags in words, and the reason for a missing number."""

import pytest

from cdc.cli.status import _print
from cdc.core.position import Lsn, Position
from cdc.core.table_state import Followed, Stopped, TableState
from cdc.core.transaction import TransactionEnd
from cdc.run.status.lag import Lag
from cdc.run.status.status import FollowerState, Status

AT = Position(17796, Lsn(0xA6D96F0), 7)
WRITES = {"commits": 2900, "files": 15600, "bytes": 650 * 2**20}
ROWS = {"public.orders": 12, "public.items": 3}
STATES: dict[str, TableState] = {
    "public.orders": Followed(),
    "public.items": Stopped(Lsn(0xA6D96F0), "its schema has changed", recopy=True),
}


def print_status(capsys: pytest.CaptureFixture[str], **followers: FollowerState) -> tuple[list[list[str]], str]:
    """The lines of the two tables, split at wide gaps, and what is said beside."""
    end = TransactionEnd(17818, 8, Lsn(0xA89C540), 0)
    _print(Status(Lsn(0xA89C610), ROWS, None, end, None, followers, STATES, WRITES, [], 4.2))
    out, err = capsys.readouterr()
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.splitlines()]
    assert ["log", "at 0/A89C540, newest commit 4 s ago"] in lines
    assert ["lake writes", "2,900 commits, 15,600 files, 650 MiB an hour, kept for retention_hours"] in lines
    return lines, err


def test_states_of_followers_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    lake = FollowerState(AT, dict(ROWS), Lag(0, 0, 0.0, is_caught_up=True))
    search = FollowerState(AT, dict(ROWS), Lag(7, 1234, 2.25, is_caught_up=False))
    latest = FollowerState(AT, dict(ROWS), Lag(0, 99, 61.0, is_caught_up=False))
    lines, err = print_status(capsys, lake=lake, search=search, latest=latest, late=FollowerState(None, {}, None))
    assert ["lake", "0/A6D96F0", "caught up", "0", "0", "0.0"] in lines
    assert ["search", "0/A6D96F0", "behind by", "7", "1234", "2.2"] in lines
    assert ["latest", "0/A6D96F0", "where the log ends, behind by", "?", "99", "61.0"] in lines
    assert ["late", "not filled yet"] in lines
    assert not err


def test_missing_counts_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    lag = Lag(0, 0, 0.0, is_caught_up=True)
    nothing: dict[str, int | None] = dict.fromkeys(ROWS)
    lines, err = print_status(
        capsys,
        lake=FollowerState(AT, dict(ROWS), lag),
        search=FollowerState(AT, {"public.orders": 12}, lag),
        latest=FollowerState(AT, nothing, lag, not_counted=list(ROWS)),
        other=FollowerState(None, nothing, None, "OpenSearch does not answer"),
        young=FollowerState(AT, nothing, lag),
    )
    assert ["public.orders", "12", "12", "12", "not counted", "not known", "none yet", "followed"] in lines
    assert ["public.items", "3", "3", "left out", "not counted", "not known", "none yet", "stopped"] in lines
    assert err == "not counted: every row would have to be read; `cdc status --exact` does\n"


def test_states_of_tables(capsys: pytest.CaptureFixture[str]) -> None:
    status = Status(None, {**ROWS, "public.new": 1}, None, None, None, {}, STATES, None, [])
    _print(status)
    table = capsys.readouterr().out.split("\n\n")[1]
    lines = [line.rstrip().split(maxsplit=2) for line in table.splitlines()[1:]]
    assert lines == [
        ["public.orders", "12", "followed"],
        ["public.items", "3", "stopped"],
        ["public.new", "1", "not known"],
    ]
    assert status.as_json()["tables"] == {
        "public.orders": {"state": "followed"},
        "public.items": {
            "state": "stopped",
            "lsn": "0/A6D96F0",
            "reason": "its schema has changed",
            "recopy": True,
        },
    }
