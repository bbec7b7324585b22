"""The table of cuts stays small in files, however many cuts it holds."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from cdc.core.errors import RefusedError
from cdc.core.position import Lsn, Position
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata import table as metadata_table
from cdc.sinks.lake.metadata.cuts import Cut, Cuts
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
