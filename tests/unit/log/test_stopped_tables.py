"""Tables that the lake's stream stops: each is told once, and copied again without a new `cdc follow`."""

import threading
from collections.abc import Collection
from pathlib import Path

import pytest

from cdc.core.errors import TableLostError, UnreachableError
from cdc.core.table import Table, TableName
from cdc.run.copy.resync_queue import ResyncQueue, ResyncResult
from cdc.run.follow.stop_reports import StopReports
from cdc.sinks.lake.apply import apply
from cdc.sinks.lake.table.writer import TableWriter
from tests.support.lake.places import PlacedLake, in_folder
from tests.unit.log.stream_in_memory import NEW, OLD, Stream, copy, copy_old_table, use_no_kafka


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlacedLake:
    use_no_kafka(monkeypatch)
    return in_folder(tmp_path)


def fail_once(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, of: Table, failure: Exception) -> None:
    """What works on this table's writer fails the next time."""
    work, failures = getattr(owner, name), [failure]

    def fail_or_work(writer: TableWriter, *further: object) -> object:
        if failures and writer.table.name == of.name:
            raise failures.pop()
        return work(writer, *further)

    monkeypatch.setattr(owner, name, fail_or_work)


def take_requests(queue: ResyncQueue) -> list[TableName]:
    """The tables that are asked for by now."""
    asked, done = list[TableName](), threading.Event()

    def copy_none(names: Collection[TableName]) -> ResyncResult:
        asked.extend(names)
        done.set()
        return ResyncResult(frozenset(), frozenset(names), None)

    if queue.is_pending:
        queue.run(copy_none, lambda text: None, done)
    return asked


@pytest.mark.parametrize(
    ("owner", "step"), [(TableWriter, "refresh"), (apply, "apply_effect")], ids=["before the batch", "beside it"]
)
def test_table_stopped_in_a_batch_that_fails_is_copied_again_by_the_next_try(
    lake: PlacedLake, monkeypatch: pytest.MonkeyPatch, owner: object, step: str
) -> None:
    copy_old_table(lake)
    copy(lake, NEW, 100)
    said, queue = list[str](), ResyncQueue()
    reports = StopReports(said.append, queue)
    stream = Stream(lake, reports)
    stream.follow(110)
    fail_once(monkeypatch, owner, step, OLD, TableLostError(OLD.name, "a file is gone"))
    fail_once(monkeypatch, apply, "apply_effect", NEW, UnreachableError("the disk is away"))
    with pytest.raises(UnreachableError, match="the disk is away"):
        stream.follow_in_one_run(120, 130)
    for _ in range(2):
        again = Stream(lake, reports)
        assert take_requests(queue) == [OLD.name]
        [line] = said
        assert line.endswith("a file is gone; the others go on → `cdc follow` copies it as it is now")
    again.follow(150)
    assert take_requests(queue) == []
