"""A copy becomes a table's content by one commit, whatever else is committed meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc.core.errors import RefusedError
from cdc.sinks.lake import layout
from cdc.sinks.lake.table import load
from cdc.sinks.lake.table.compact import compact_files
from tests.support.histories import THINGS
from tests.support.lake.places import in_folder
from tests.support.lake.tables import apply, copy_rows, open_writer, row
from tests.support.model import CommitOrder, Insert


def test_a_copy_takes_its_place_beside_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer's changes it does not undo."""
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, [row(key, "old") for key in range(4)], files=2)
    describe, writer = load._describe_table, open_writer(lake)
    meanwhile: list[Callable[[], object]] = [lambda: compact_files(writer, list(writer.snapshot.files))]

    def describe_late(*args: Any, **more: Any) -> Any:
        if meanwhile:
            meanwhile.pop()()
        return describe(*args, **more)

    monkeypatch.setattr(load, "_describe_table", describe_late)
    copy_rows(lake, THINGS, [row(9, "new")])
    log = layout.open_owned_log(lake, THINGS.name)
    assert log
    assert log.snapshot.live_rows == len(log.snapshot.files) == 1
    writer = open_writer(lake)
    meanwhile.append(lambda: apply(writer, [Insert(THINGS.name, CommitOrder(9, 1), (5,), row(5, "other"))], 9))
    with pytest.raises(RefusedError, match="another writer has written"):
        copy_rows(lake, THINGS, [row(9, "again")])
