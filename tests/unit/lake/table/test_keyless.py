"""A table without a key keeps each row's multiplicity across merges."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.netting.batch import TableEffect
from cdc.columns.netting.net_keyless import fold_keyless
from cdc.core.errors import DivergenceError
from cdc.sinks.lake.delta.retention import Retention
from cdc.sinks.lake.delta.snapshot import TxnUpdate
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.table.commit import apply_effect
from cdc.sinks.lake.table.maintenance import maintain
from cdc.sinks.lake.table.writer import TableWriter
from tests.support.examples import examples
from tests.support.lake.places import PlacedLake
from tests.support.lake.tables import APP, copy_rows, open_writer
from tests.unit.columns.test_fold_rows import LOGS, Row, decoded, messages, named, played, rows, steps


def count_rows(lake: Lake) -> Counter[Row]:
    query = QueryBuilder().register("t", DeltaTable(lake.folder(LOGS.name)))
    records = pa.table(query.execute("SELECT a, b FROM t").read_all()).to_pylist()
    return Counter((row["a"], row["b"]) for row in records)


def apply(writer: TableWriter, events: list[dict[str, object]], version: int) -> None:
    changes, before = decoded(messages(events)), writer.snapshot.transactions.get(APP)
    effect = TableEffect(fold_keyless(changes, changes.tx_id))
    apply_effect(writer, effect, TxnUpdate(APP, before, version))


@examples(40)
@given(st.lists(rows, max_size=8), st.lists(st.tuples(steps, st.sampled_from(["", "again", "maintain"])), max_size=6))
def test_keyless_rows_keep_their_multiplicity(
    first: list[Row], batches: list[tuple[list[tuple[str, Row, int]], str]]
) -> None:
    with open_lake(first) as lake:
        writer, there = open_writer(lake, LOGS), Counter(first)
        for version, (history, then) in enumerate(batches):
            events, there = played(history, there)
            apply(writer, events, version)
            assert count_rows(lake) == there
            if then == "maintain":
                maintain(writer, Retention(0, writer.snapshot.version))
            elif then == "again":
                writer.save_index(everything=True)
                writer = open_writer(lake, LOGS)
        assert count_rows(lake) == there


@contextmanager
def open_lake(first: list[Row]) -> Iterator[PlacedLake]:
    """A lake with a copy of these rows, while the context lasts."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        lake = PlacedLake(str(folder / "lake"), "p", files=folder / "lake", indexes=folder / "indexes")
        copy_rows(lake, LOGS, [named(row) for row in first])  # type: ignore[misc]
        yield lake


def test_deleting_a_missing_keyless_row_is_refused() -> None:
    gone: dict[str, object] = {"op": "d", "before": named((1, "x")), "after": None}
    with open_lake([(1, "x")]) as lake:
        writer = open_writer(lake, LOGS)
        with pytest.raises(DivergenceError, match=r"public\.logs: cannot delete 1 row"):
            apply(writer, [gone, dict(gone)], 1)
