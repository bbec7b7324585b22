"""The table of cuts stays small in files, however many cuts it holds."""

import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from cdc.core.errors import RefusedError
from cdc.core.position import Lsn, Position
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.snapshot import DataFile
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata import table as metadata_table
from cdc.sinks.lake.metadata.cuts import FOLDER, Cut, Cuts
from cdc.sinks.lake.metadata.table import MetadataTable
from tests.support.waiting import until


def cut(offset: int) -> Cut:
    position = Position(offset, Lsn(10 * offset), offset, {"topic": {0: offset}})
    return Cut(position, offset, {"public.t": offset}, {"public.t": "id"})


def test_stream_sees_every_cut_once_during_compaction(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_table, "COMPACT_AT_FILES", 5)
    table = Cuts(Lake(str(tmp_path / "lake"), "p"))
    table.prepare()
    seen: list[int] = []

    def keep(frame: DataFrame, _: int) -> None:
        seen.extend(row["end_offset"] for row in frame.collect())

    def reached(offset: int) -> bool:
        return offset in seen or query.exception() is not None

    frame = spark.readStream.format("delta").load(table.folder)
    query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "state")).start()
    try:
        before = None
        for offset in range(1, 16):
            table.add(cut(offset), before)
            before = table.last()
            table.maintain(1.0, 0)
            if offset % 3 == 0:
                until(partial(reached, offset), "the cut is seen")
    finally:
        query.stop()
    assert query.exception() is None
    assert sorted(seen) == list(range(1, 16))


def test_cuts_are_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_table, "COMPACT_AT_FILES", 10)
    table = Cuts(Lake(str(tmp_path), "p"))
    table.prepare()
    before = None
    for offset in range(1, 64):
        table.add(cut(offset), before)
        before = table.last()
        table.maintain(0.0, 5)
        assert before == cut(offset)
    assert table.find(7) == cut(7)
    assert table.find(64) is None
    delta = DeltaTable(table.folder)
    assert len(delta.file_uris()) < 15
    assert delta.to_pyarrow_table().num_rows == 59
    assert table.find(4) is None
    assert table.list_after(cut(58), 3) == [cut(59), cut(60), cut(61)]
    assert table.list_after(cut(62), 3) == [cut(63)]
    assert table.list_after(cut(63), 3) == []


def wide_cut(offset: int) -> Cut:
    """A cut of many tables, each with a commit of its own."""
    return replace(cut(offset), commits={f"public.t{number}": str(uuid.uuid4()) for number in range(30)})


CUTS = [wide_cut(offset) for offset in range(1, 241)]


def add_cuts(table: Cuts, numbers: range, needed: int) -> None:
    """Add the cuts of these numbers, each with its upkeep; from the one at `needed` on, all are kept."""
    for number in numbers:
        table.add(CUTS[number], CUTS[number - 1] if number else None)
        table.maintain(0.0, needed)


def offsets_of(cuts: list[Cut]) -> list[int]:
    return [each.position.end_offset for each in cuts]


def test_old_cuts_are_compacted_once_and_a_reader_reads_few_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each round would rewrite all that are kept, and each look read them."""
    monkeypatch.setattr(metadata_table, "COMPACT_AT_FILES", 20)
    monkeypatch.setattr(metadata_table, "LARGE_BYTES", 40_000)
    lake = Lake(str(tmp_path), "p")
    table, reader, read = Cuts(lake), Cuts(lake), list[int]()
    add_cuts(table, range(200), 0)
    log = DeltaLog.open(lake.metadata_storage(FOLDER))
    assert log is not None
    rows = [file.rows for file in log.snapshot.files.values()]
    assert sum(rows) == 200
    assert len(rows) < 30
    assert 20 < max(rows) <= 80
    read_file = MetadataTable._read

    def count(own: MetadataTable, schema: pa.Schema, file: DataFile) -> pa.Table:
        read.append(file.rows)
        return read_file(own, schema, file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetadataTable, "_read", count)
        assert offsets_of(reader.list_after(CUTS[0], 1)) == [2]
        assert len(read) == 1
        assert offsets_of(reader.list_after(CUTS[0], 90)) == [*range(2, 92)]
        assert len(read) <= 4
    # nobody needs the old ones any more
    add_cuts(table, range(200, 240), 190)
    kept = offsets_of(Cuts(lake).list_after(CUTS[0], 240))
    assert kept == [*range(kept[0], 241)]
    assert 100 < kept[0] <= 190


def test_the_newest_cut_gets_further_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reader sees it, no stream does, and it stays one cut."""
    monkeypatch.setattr(metadata_table, "COMPACT_AT_FILES", 4)
    lake = Lake(str(tmp_path), "p")
    table, reader = Cuts(lake), Cuts(lake)
    table.prepare()
    before = None
    for offset in range(1, 6):
        table.add(cut(offset), before)
        before = table.last()
        assert reader.last() == before
        table.maintain(0.0, 0)
        wider = replace(cut(offset), versions={"public.t": offset, "shop.v": 1}, ids={"shop.v": "x"})
        table.extend(wider, ["shop.v"])
        before = table.last()
        assert before == reader.last() == reader.find(offset) == replace(wider, joined=frozenset({"shop.v"}))
    assert reader.list_after(cut(3), 9) == [reader.find(4), reader.find(5)]
    with pytest.raises(RefusedError, match="another writer has moved"):
        table.extend(cut(4))
