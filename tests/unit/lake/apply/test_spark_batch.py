"""A run processed by tasks and committed by the driver ends as the model says."""

import sys
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.batch import Ranks, TableChanges, TableEffect
from cdc.columns.netting.ends import Ends, to_columns
from cdc.columns.netting.net_changes import fold
from cdc.core.position import Lsn
from cdc.core.transaction import TransactionEnd
from cdc.log.messages import Stretch
from cdc.sinks.lake.apply.spark_batch import LargeBatch, MissingChanges, TaskPlan, TaskResult, process_partition
from cdc.sinks.lake.delta.snapshot import TxnUpdate
from cdc.sinks.lake.table.commit import apply_effect
from cdc.sinks.lake.table.writer import TableWriter
from tests.support import model
from tests.support.debezium import PLACEHOLDER, as_they_come, messages, topic
from tests.support.examples import examples
from tests.support.histories import THINGS, Sent, histories
from tests.support.lake.places import in_folder
from tests.support.lake.tables import APP, by_id, copy_rows, open_writer, read_by_delta_rs, row
from tests.support.model import Change, CommitOrder, Insert, Key, Row

COPY: dict[Key, Row] = {(n,): row(n, f"old {n}") for n in range(3)}


def ends(history: list[Sent]) -> Ends:
    ranks = [sent.changes[0].place.rank for sent in history]
    return to_columns(TransactionEnd(rank, rank, Lsn(rank), 0, {"public.things": 1}) for rank in ranks)


def run_tasks_on(
    writer: TableWriter, changes: list[Change], run: Ends, after: int, rows: int, most_bytes: int = sys.maxsize
) -> list[TaskResult]:
    """Run the tasks on these changes; returns their results."""
    wanted = MissingChanges(THINGS, topic(THINGS), len(changes), after, writer.storage, needs_driver=False)
    plan = TaskPlan(Ranks.of(run), {wanted.topic: wanted}, PLACEHOLDER, most_bytes, is_patient=False)
    read = [as_they_come(partition, rows) for partition in messages(THINGS, changes, 3)]
    return [process_partition(own, Stretch(wanted.topic, n, 0, 1_000_000), plan) for n, own in enumerate(read)]


def effect(writer: TableWriter, changes: list[Change], run: Ends, after: int, rows: int) -> TableEffect:
    parts = run_tasks_on(writer, changes, run, after, rows)
    # applied changes are not waited for
    assert sum(part.count for part in parts) == sum(change.place.rank > after for change in changes)
    if all(part.is_complete for part in parts):
        # the halves of an update are in any partitions
        assert not sum(part.unpaired for part in parts)
        return LargeBatch(run, {THINGS.name: parts}).take(THINGS, after, {}).effect()
    return read_by_the_driver(changes, run, after)


def read_by_the_driver(changes: list[Change], run: Ends, after: int) -> TableEffect:
    decoded = [Decoder(THINGS, PLACEHOLDER).decode(part).changes for part in messages(THINGS, changes, 3)]
    whole = type(decoded[0]).concat(decoded)
    own = TableChanges(whole, Ranks.of(run).places(whole.tx_id))
    late = own.ranks > after
    return TableEffect(fold(whole.take(late.nonzero()[0]), own.ranks[late]))


@examples(60)
@given(histories(COPY), st.integers(0, 8), st.integers(1, 20), st.integers(0, 8))
def test_two_overlapping_runs_end_as_the_model_says(history: list[Sent], cut: int, rows: int, again: int) -> None:
    """The second run begins before the first one's end; applied changes are left out."""
    with tempfile.TemporaryDirectory() as folder:
        lake = in_folder(Path(folder))
        copy_rows(lake, THINGS, list(COPY.values()))
        writer = open_writer(lake)
        done, before = 0, None
        for run in (history[:cut], history[min(cut, again) :]):
            changes = [change for sent in run for change in sent.changes]
            if changes:
                table_effect = effect(writer, changes, ends(run), done, rows)
                done = max(done, run[-1].changes[0].place.rank)
                if not table_effect.is_empty:
                    apply_effect(writer, table_effect, TxnUpdate(APP, before, done))
                    before = done
        everything = [change for sent in history for change in sent.changes]
        assert read_by_delta_rs(lake) == by_id(model.apply(COPY, everything))


def test_a_task_stops_at_the_end_of_the_run(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, list(COPY.values()))
    writer = open_writer(lake)
    history: list[Change] = [change for n in range(1, 100) for change in _insert(n)]
    parts = run_tasks_on(writer, history, ends([Sent(tuple(_insert(n)), {}) for n in range(1, 10)]), 0, 5)
    assert sum(part.count for part in parts) == 9
    assert all(part.until is None or part.until <= 20 for part in parts)


def test_a_task_gives_up_beyond_its_bytes(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, list(COPY.values()))
    writer, run = open_writer(lake), ends([Sent(tuple(_insert(n)), {}) for n in range(1, 100)])
    history: list[Change] = [change for n in range(1, 100) for change in _insert(n)]
    before = {*tmp_path.rglob("*.parquet")}
    parts = run_tasks_on(writer, history, run, 0, 5, most_bytes=2_000)
    assert [part.is_too_large for part in parts] == [True, True, True]
    assert {*tmp_path.rglob("*.parquet")} == before


def _insert(n: int) -> list[Change]:
    return [Insert(THINGS.name, CommitOrder(n, 1), (1000 + n,), row(1000 + n, "new"))]
