"""The write rate comes from the newest commits, for anyone who opens the log."""

from pathlib import Path

import pytest

from cdc.sinks.lake.delta import write_rate
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.snapshot import now_ms
from cdc.sinks.lake.delta.write_rate import WriteRate
from tests.support.histories import THINGS
from tests.support.lake.places import in_folder
from tests.support.lake.tables import apply, copy_rows, open_writer, row, update
from tests.support.model import CommitOrder, Delete


def test_the_write_rate_counts_files_and_bytes_of_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, [row(n, "old") for n in range(300)], files=2)
    writer, folder = open_writer(lake), lake.disk(THINGS.name)
    before = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    for rank in range(1, 11):
        apply(
            writer,
            [
                *update(rank, row(rank, "x"), row(200 + rank, "y")),
                Delete(THINGS.name, CommitOrder(rank, 9), (150 + rank,)),
            ],
            rank,
        )
    made = [path for path in folder.rglob("*") if path.is_file() and path not in before]
    # of eleven commits, the copy's among them, all within a minute
    monkeypatch.setattr(write_rate, "HOUR_MS", write_rate.MIN_SPAN_MS)
    log = DeltaLog.open(lake.table_storage(THINGS.name))
    assert log is not None
    rate = log.rate_meter.rate()
    assert (rate.commits, rate.files) == (11, len(made) + 3)
    files = sum(path.stat().st_size for path in made if path.suffix != ".json")
    copy = sum(size for path, size in before.items() if path.suffix == ".parquet")
    # without the vectors' frames
    assert 0.95 * (files + copy) < rate.bytes <= files + copy


def test_the_write_rate_of_an_idle_table_falls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, [row(1, "old")])
    writer = open_writer(lake)
    busy = writer.log.rate_meter.rate()
    now = now_ms()
    monkeypatch.setattr(write_rate, "now_ms", lambda: now + 10 * write_rate.HOUR_MS)
    assert writer.log.rate_meter.rate().commits < busy.commits / 100


def test_requests_are_reported_for_object_stores_only() -> None:
    hourly = WriteRate(600, 1800, 9e6)
    assert hourly.as_json(requests=False) == {"commits": 600, "files": 1800, "bytes": 9_000_000}
    assert hourly.as_json(requests=True)["requests"] == 3000
