"""The table of cuts stays small in files, however many cuts it holds."""

from pathlib import Path

import pytest

from cdc.core.position import Lsn, Position
from sinks import cuts
from sinks.cuts import Cut, Cuts
from sinks.lake import Lake, open_table


def cut(offset: int) -> Cut:
    return Cut(Position(1, offset, Lsn(10 * offset), offset, {"topic": {0: offset}}), offset, {"public.t": offset})


def test_cuts_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "TIDY_EVERY", 10)
    table = Cuts(Lake(str(tmp_path), "p", 1))
    table.prepare()
    before = None
    for offset in range(1, 64):
        table.add(cut(offset), before)
        before = table.last()
        assert before == cut(offset)
    assert table.at(7) == cut(7)
    assert table.at(64) is None
    delta = open_table(table.folder)
    assert delta is not None
    assert len(delta.file_uris()) < 15
    assert delta.to_pyarrow_table().num_rows == 63
