"""What processes tell of themselves in files: whole or not at all, and never in anybody's way."""

from pathlib import Path

from cdc.core.position import Lsn, Position
from cdc.run.follow.stream_meter import FRESH_SECONDS, MOST_REPORTED, StreamMeter
from cdc.run.follow.streams import BatchProgress
from cdc.run.status.stream_report import COPIES, CopyReport, Reports, StreamReport, report_copy
from cdc.run.status.things import Verification, to_time

NOW = 1_700_000_000.0
AT = Position(7, Lsn(700), 1)


def test_a_stream_tells_of_its_batches(tmp_path: Path) -> None:
    meter, reports = StreamMeter(lambda: NOW), Reports(tmp_path / "reports")
    meter.note_batch(BatchProgress(AT, 3, [round(1000 * (NOW - s)) for s in (0.2, 1.5, 40.0)], {"read": 0.25}))
    # a clock of the source that goes ahead is no time before zero
    meter.note_batch(BatchProgress(AT, 0, [round(1000 * (NOW + 5))], {"read": 0.25, "apply": 0.5}))
    meter.note_retry()
    reports.write("search", meter.report())
    found = reports.read_stream("search")
    assert found == meter.report()
    assert found is not None
    assert (found.batches, sum(found.batch_changes), found.commits, found.retries) == (2, 3, 4, 1)
    assert found.freshness == [0.2, 1.5, 40.0, 0.0]
    assert (found.buckets["0.25"], found.buckets["2.0"], found.buckets["60.0"]) == (2, 3, 4)
    assert (found.stages, found.batch_seconds) == ({"read": 0.5, "apply": 0.5}, [0.25, 0.75])


def test_a_report_that_is_not_whole_is_none(tmp_path: Path) -> None:
    reports = Reports(tmp_path)
    assert reports.read_stream("search") is None
    (tmp_path / "search.json").write_text('{"at": 1')
    assert reports.read_stream("search") is None
    (tmp_path / "search.json").write_text('{"pid": "me"}')
    assert reports.read("search", StreamReport) is None
    # nor is a full disk, or a folder in the file's place, anybody's end
    (tmp_path / "lake.json").mkdir()
    reports.write("lake", StreamReport(at=NOW, began_at=NOW, pid=1))
    reports.remove("none")


def test_a_copy_is_told_once_a_second_and_forgotten_at_its_end(tmp_path: Path) -> None:
    reports, now, shown = Reports(tmp_path), [NOW], list[int]()
    with report_copy(reports, "public.orders", 1000, shown.append, lambda: now[0]) as advance:
        assert reports.read_copies() == {"public.orders": CopyReport(at=NOW, began_at=NOW, all_rows=1000)}
        advance(100)
        now[0] += 1
        advance(150)
        found = CopyReport(at=NOW + 1, began_at=NOW, done_rows=250, all_rows=1000)
        assert reports.read_copies() == {"public.orders": found}
    assert shown == [100, 150]
    assert reports.read(COPIES, dict) is None


def test_the_newest_verification_of_each_follower_is_kept(tmp_path: Path) -> None:
    reports = Reports(tmp_path)
    old, new = (Verification(at=to_time(NOW + n), verdict="equal") for n in (0, 9))
    reports.add_verifications({"lake": old, "search": old})
    reports.add_verifications({"search": new})
    assert reports.read_verifications() == {"lake": old, "search": new}


def test_percentiles_are_of_the_last_minutes_and_of_few_numbers() -> None:
    now = [NOW]
    meter = StreamMeter(lambda: now[0])
    meter.note_batch(BatchProgress(AT, 1, [round(1000 * (NOW - 600))]))
    assert meter.report().freshness == [600.0]
    # what a start has caught up with is over after a while, and stays in the totals
    now[0] += FRESH_SECONDS
    meter.note_batch(BatchProgress(AT, 1, [round(1000 * now[0]) - 500] * 3000))
    found = meter.report()
    assert set(found.freshness) == {0.5}
    assert MOST_REPORTED <= len(found.freshness) < 2 * MOST_REPORTED
    assert (found.commits, found.buckets["300.0"]) == (3001, 3000)
