"""The output of `cdc status` for people: lags in words, and the reason for a missing number."""

import pytest
from msgspec.structs import replace

from cdc.cli.verbs.status import _print, describe_verdict
from cdc.run.status.document import About, Document, StatusVerdict, decode, encode, to_builtins
from cdc.run.status.judging.verdict import check_code
from cdc.run.status.things import (
    CopyStatus,
    Fact,
    FollowerStatus,
    Level,
    Part,
    Slot,
    State,
    StatusValue,
    TableStatus,
    TableVerdict,
    Verification,
    Writes,
    to_time,
)

AT = "0/A6D96F0"
NOW = 1_700_000_000.0
HOLDERS = ("lake", "search", "latest", "other", "young")


def follower(state: State = State.OK, word: str = "current", **values: object) -> FollowerStatus:
    made = {"lsn": AT, "behind_seconds": 0.0, "changes_waiting": 0, "bytes_waiting": 0, "is_caught_up": True, **values}
    return FollowerStatus(order=1, kind="delta", what="Delta tables", state=state, word=word, **made)  # type: ignore[arg-type]


def document(followers: dict[str, FollowerStatus], tables: dict[str, TableStatus], **values: StatusValue) -> Document:
    source = Part(order=1, kind="Postgres", name="shop", state=State.OK, word="answers", is_cause=True)
    facts = [Fact(name="at", value="0/A89C540", deep=True)]
    log = Part(order=3, kind="Log", name="Kafka", state=State.OK, word="current", line="newest 4 s ago", facts=facts)
    return Document(
        schema=1,
        seq=1,
        at=to_time(NOW),
        every_seconds=2.0,
        pipeline=About(name="shop", version="1"),
        parts={"source": source, "log": log},
        lake_writes=Writes(commits=2900, files=15600, bytes=650 * 2**20),
        followers=followers,
        tables=tables,
        **{"verdict": StatusVerdict(level=Level.OK, title="Everything is current"), **values},  # type: ignore[arg-type]
    )


def printed(capsys: pytest.CaptureFixture[str], shown: Document) -> tuple[list[list[str]], str]:
    """The lines, split at wide gaps, and what is said beside."""
    _print(shown)
    out, err = capsys.readouterr()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.splitlines()], err


def test_states_of_followers_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    behind = follower(State.OK, changes_waiting=7, bytes_waiting=1234, behind_seconds=2.25, is_caught_up=False)
    waits = follower(State.WAITS, changes_waiting=0, bytes_waiting=99, behind_seconds=61.0, is_caught_up=False)
    late = FollowerStatus(order=4, kind="latest", what="", state=State.NEW, word="not filled yet")
    lines, err = printed(capsys, document({"lake": follower(), "search": behind, "latest": waits, "late": late}, {}))
    assert ["OK: Everything is current"] in lines
    assert ["source", "shop answers, and what is behind it waits"] in lines
    assert ["log", "Kafka current, at 0/A89C540, newest 4 s ago"] in lines
    assert ["lake writes", "2,900 commits, 15,600 files, 650 MiB an hour, kept for retention_hours"] in lines
    assert ["lake", AT, "caught up", "0", "0", "0.0"] in lines
    assert ["search", AT, "behind by", "7", "1234", "2.2"] in lines
    assert ["latest", AT, "where the log ends, behind by", "?", "99", "61.0"] in lines
    assert ["late", "not filled yet"] in lines
    assert not err


def test_missing_counts_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    others = {"other": follower(State.SILENT, why="OpenSearch does not answer"), "young": follower()}
    followers = {"lake": follower(), "search": follower(), "latest": follower(), **others}
    orders = TableStatus(rows=12, rows_in={"lake": 12, "search": 12}, not_counted=["latest"], holders=HOLDERS)
    items = TableStatus(rows=3, rows_in={"lake": 3}, holders=[name for name in HOLDERS if name != "search"])
    stopped = TableStatus(state=State.STOPPED, rows=None, holders=[])
    lines, err = printed(
        capsys, document(followers, {"public.orders": orders, "public.items": items, "public.new": stopped})
    )
    assert ["public.orders", "12", "12", "12", "not counted", "not known", "none yet", "followed"] in lines
    assert ["public.items", "3", "3", "left out", "none yet", "not known", "none yet", "followed"] in lines
    gone = ["left out", "left out", "left out", "not known", "left out"]
    assert ["public.new", "not known", *gone, "stopped"] in lines
    assert err == "not counted: every row would have to be read; `cdc status --exact` does\n"


def test_a_copy_is_an_estimate_with_its_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    copy = CopyStatus(phase="rows", done_rows=999_999, all_rows=1_000_000, seconds_left=300.0)
    slot = Slot(
        name="cdc_shop",
        state=State.BEHIND,
        word="filling",
        active=True,
        wal_status="extended",
        retained_bytes=1000,
        limit_bytes=4000,
        full_in_seconds=10_920.0,
        held_by="pid 7 (me), open for 12 min",
        confirmed_lsn=AT,
    )
    capture = Part(order=2, kind="Capture", name="cdc-shop", state=State.OK, word="running", line="task running")
    shown = document({}, {"public.orders": TableStatus(state=State.COPYING, copy=copy)}, slot=slot)
    lines, _ = printed(capsys, decode(encode(shown)))
    assert [line[-1] for line in lines if line[:1] == ["public.orders"]] == ["copying about 99 %, 5 min left"]
    lines, _ = printed(capsys, replace(shown, parts={"capture": capture}))
    kept = "1,000 of 4,000 bytes retained, extended, full in 3 h 2 min, held by pid 7 (me), open for 12 min"
    assert ["slot", f"cdc_shop at {AT}, {kept}"] in lines
    assert ["capture", "cdc-shop running, task running"] in lines


def test_verifications_are_as_old_as_the_table_that_waits_longest(capsys: pytest.CaptureFixture[str]) -> None:
    by_table = {name: TableVerdict(tried=to_time(NOW - 60), at=to_time(NOW - 60)) for name in ("public.a", "public.b")}
    rolling = Verification(
        at=to_time(NOW), verdict="different", tables=2, of=2, rows=9, keys=3, moved=1, oldest_at=to_time(NOW - 60)
    )
    begun = Verification(at=to_time(NOW), verdict="not all compared", tables=1, of=3, rows=4, by_table=by_table)
    found = {"lake": rolling, "search": begun, "latest": Verification(at=to_time(NOW - 7200), verdict="equal")}
    lines, _ = printed(capsys, replace(document({}, {}), verifications=found))
    assert ["lake", "different", "2 of 2", "9", "3", "1", "60 s ago"] in lines
    assert ["search", "not all compared", "1 of 3", "4", "0", "0", "not all yet"] in lines
    assert ["latest", "equal", "0 of 0", "0", "0", "2 h 0 min ago"] in lines


@pytest.mark.parametrize(
    ("level", "code"), [(Level.OK, 0), (Level.BUSY, 0), (Level.KNOW, 1), (Level.TODAY, 1), (Level.NOW, 2)]
)
def test_a_monitor_gets_its_code_and_one_line(level: Level, code: int) -> None:
    verdict = StatusVerdict(level=level, title="The slot is full in {left}", deadline=to_time(NOW + 90))
    assert check_code(verdict) == code
    assert describe_verdict(document({}, {}, verdict=verdict)) == f"{level.upper()}: The slot is full in 90 s"


def test_what_nobody_knows_is_not_well() -> None:
    assert check_code(StatusVerdict(level=Level.UNKNOWN, title="?")) == 3
    assert {check_code(StatusVerdict(level=level, title="?")) for level in Level} == {0, 1, 2, 3}


def test_json_of_the_document_is_read_back() -> None:
    shown = document({"lake": follower()}, {"public.orders": TableStatus(holders=["lake"], rows=3)})
    told = to_builtins(shown)
    assert (told["schema"], told["seq"], told["at"]) == (1, 1, "2023-11-14T22:13:20Z")
    assert told["tables"] == {"public.orders": {"rows": 3, "in": ["lake"]}}
    assert decode(encode(shown)) == shown
