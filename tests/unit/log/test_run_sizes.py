"""A run of few changes and many bytes goes to a Spark job, as one of many changes does."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, cast

import pytest

from cdc.columns.netting.ends import Ends
from cdc.core.position import Offsets
from cdc.log.run_reader import ReadRun, RunTooLargeError
from cdc.run.follow.large_runs import LargeRunReader
from cdc.sinks.lake.apply.spark_batch import MissingChanges
from cdc.sinks.lake.feed.feed import LakeFeed
from tests.support.lake.places import in_folder
from tests.unit.log.stream_in_memory import NEW, OLD, Interrupted, Stream, copy, copy_old_table, use_no_kafka


def test_a_run_of_too_many_bytes_is_read_by_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_no_kafka(monkeypatch)
    lake = in_folder(tmp_path)
    copy_old_table(lake)
    copy(lake, NEW, 100)
    stream, asked = Stream(lake), list[list[int]]()

    class BySpark:
        def read(self, run: Ends, wanted: Sequence[MissingChanges], start: Offsets) -> ReadRun:
            asked.append(run.offset.tolist())
            return stream._readers.small.read(run, [each.table for each in wanted], start)

    def refuse() -> NoReturn:
        raise RunTooLargeError

    stream._readers = replace(stream._readers, large=cast("LargeRunReader", BySpark()))
    stream.follow(110)
    Interrupted.meanwhile[130] = refuse
    stream.follow_in_one_run(120, 130)
    stream.follow(140)
    assert asked == [[120, 130]]
    cut = LakeFeed(None, lake).last_cut()
    assert (cut.position.end_offset, {*cut.versions}) == (140, {str(OLD.name), str(NEW.name)})
    assert sum(each.writer.snapshot.live_rows for each in stream.follower.tables.all().values()) == 4
