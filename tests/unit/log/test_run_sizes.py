"""A run of few changes and many bytes goes to a Spark job, as one of many changes does, or becomes several runs."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, cast

import pytest

from cdc.columns.netting.ends import Ends, to_columns
from cdc.core.position import BEFORE_LOG, Lsn, Offsets
from cdc.core.transaction import TransactionEnd
from cdc.log.run_reader import ReadRun, RunTooLargeError
from cdc.run.follow.lake.large_runs import LargeRunReader
from cdc.run.follow.lake.run_cuts import RunCuts
from cdc.run.follow.step_size import MOST_RUN_BYTES, StepBounds
from cdc.sinks.lake.apply.spark_batch import MissingChanges
from cdc.sinks.lake.feed.feed import LakeFeed
from tests.support.lake.places import in_folder
from tests.unit.log.stream_in_memory import (
    BEATS,
    NEW,
    OLD,
    TRANSACTIONS,
    Interrupted,
    Stream,
    copy,
    copy_old_table,
    ends,
    follower_of,
    use_no_kafka,
)


def test_a_run_of_too_many_bytes_is_read_by_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_no_kafka(monkeypatch)
    lake = in_folder(tmp_path)
    copy_old_table(lake)
    copy(lake, NEW, 100)
    stream, asked = Stream(lake), list[list[int]]()

    class BySpark:
        def read(self, run: Ends, wanted: Sequence[MissingChanges], start: Offsets, most_bytes: int) -> ReadRun:
            assert most_bytes == MOST_RUN_BYTES
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


def test_what_cannot_be_held_at_once_becomes_several_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_no_kafka(monkeypatch)
    lake = in_folder(tmp_path)
    copy_old_table(lake)
    copy(lake, NEW, 100)
    # heartbeats between the changes: those of a run that is cut again are checked again
    stream, asked, held = Stream(lake, beats={101: None, 111: None, 141: None}), list[int](), list[list[int]]()

    class Narrow:
        """Holds a change of the old table at a time."""

        def read(self, run: Ends, wanted: Sequence[MissingChanges], start: Offsets, most_bytes: int) -> ReadRun:
            asked.append(len(run))
            if run.changes_of([str(OLD.name)]).sum() > 1 and most_bytes < sys.maxsize:
                raise RunTooLargeError
            held.append(run.offset.tolist())
            return stream._readers.small.read(run, [each.table for each in wanted], start)

    stream._readers = replace(stream._readers, large=cast("LargeRunReader", Narrow()))
    small = stream._config.delta.model_copy(update={"small_run_changes": 0})
    stream._config = replace(stream._config, delta=small)
    stream._cuts = RunCuts(stream.follower, StepBounds(100, 1, 100), stream._schema.table)
    numbers = (101, 110, 111, 120, 130, 140, 141, 160)
    stream._apply(
        to_columns(TransactionEnd(n, n, Lsn(n), 0, {str(TRANSACTIONS.get(n, BEATS).name): 1}) for n in numbers)
    )
    stream._await_commit()
    assert asked[0] == len(numbers)
    assert held == [[101, 110], [111, 120, 130], [140], [141, 160]]
    assert LakeFeed(None, lake).last_cut().position.end_offset == 160
    assert sum(each.writer.snapshot.live_rows for each in stream.follower.tables.all().values()) == 5


def test_runs_grow_again_and_a_transaction_is_read_whole(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copy_old_table(lake)
    cuts = RunCuts(follower_of(lake), StepBounds(100, 1, 100), "cdc.shapes")
    pending = ends(110, 120, 130, 140, 150, 160)

    def cut() -> tuple[int, bool]:
        run = cuts.cut(pending, BEFORE_LOG)
        return len(run), cuts.most_bytes(run) == sys.maxsize

    def shrink() -> tuple[int, bool]:
        cuts.shrink(cuts.cut(pending, BEFORE_LOG))
        return cut()

    assert [cut(), shrink(), shrink(), shrink()] == [(6, False), (3, False), (1, False), (1, True)]
    # the furthest table is ahead: no run ends before it, whatever its size, and a refusal there teaches nothing else
    assert cuts.cut(pending, 140).offset.tolist() == [110, 120, 130, 140]
    cuts.shrink(pending)
    assert cut() == (1, False)
    cuts.grow()
    assert cut() == (2, False)
