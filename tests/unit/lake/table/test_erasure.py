"""A deleted row's bytes are in no file after its table's past is deleted, and everything else is as it was."""

from collections.abc import Iterable
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cdc.run.erase.scanning import has_values
from cdc.run.erase.values import Sought
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.table.erasure import delete_past, has_live, read_versions, rewrite_deleted
from tests.contract.followers import Crash
from tests.support.histories import THINGS
from tests.support.lake.places import PLACES, PlacedLake, place_lake
from tests.support.lake.tables import apply, by_id, copy_rows, open_writer, read_by_delta_rs, row, update
from tests.support.model import CommitOrder, Delete, Key, Row

ERASED = 7
COPY: dict[Key, Row] = {(n,): row(n, f"old {n}" if n != ERASED else "canary 0 of it") for n in range(60)}
SOUGHT = Sought(tuple(f"canary {n} of it" for n in range(4)))
KEY = ("id",)


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: pytest.TempPathFactory) -> PlacedLake:
    placed = place_lake(request, tmp_path)  # type: ignore[arg-type]
    copy_rows(placed, THINGS, list(COPY.values()), files=2)
    return placed


def holds(rows: pa.Table) -> pa.Array:
    return pc.equal(rows["id"], ERASED)


def find(lake: PlacedLake) -> list[str]:
    """The files with a value, as they lie on the disk."""
    files = [path for path in sorted(lake.disk(THINGS.name).rglob("*")) if path.is_file()]
    return [path.name for path in files if has_values(path.name, lambda path=path: path.open("rb"), SOUGHT)]  # type: ignore[misc]


def test_bytes_of_a_deleted_row_are_gone(lake: PlacedLake) -> None:
    writer = open_writer(lake)
    for rank in range(1, 4):
        apply(writer, update(rank, row(ERASED, f"canary {rank} of it"), row(9, f"new {rank}")), rank)
    assert has_live(writer, KEY, holds)
    apply(writer, [Delete(THINGS.name, CommitOrder(4, 1), (ERASED,))], 4)
    assert not has_live(writer, KEY, holds)
    versions = pa.concat_tables(read_versions(writer.storage, THINGS, holds))
    assert {*SOUGHT.texts} == {*versions["big"].drop_null().to_pylist()}
    rows = {key: values for key, values in COPY.items() if key != (ERASED,)} | {(9,): row(9, "new 3")}
    assert len(find(lake)) > 4
    writer.save_index(everything=True)
    own = open_writer(lake, index="another")
    # only files that hold it: one of the copy's two, and the last update's, in which the other row lives
    assert rewrite_deleted(own, KEY, holds) == 2
    assert len(find(lake)) > 4
    die_while_deleting(lake)
    log = DeltaLog.open(lake.table_storage(THINGS.name))
    assert log
    delete_past(log)
    assert find(lake) == []
    assert read_by_delta_rs(lake) == by_id(rows)
    # a new process goes on with an index from before, and an erased key comes again
    apply(open_writer(lake), update(5, row(9, "after")), 5)
    apply(open_writer(lake), update(6, row(ERASED, "somebody new")), 6)
    assert read_by_delta_rs(lake) == by_id({**rows, (9,): row(9, "after"), (ERASED,): row(ERASED, "somebody new")})


def die_while_deleting(lake: PlacedLake) -> None:
    """Killed after the checkpoint and the files, before older commits: readers see the same."""
    log, rows, calls = DeltaLog.open(lake.table_storage(THINGS.name)), read_by_delta_rs(lake), list[int]()
    assert log
    delete = log.storage.delete

    def delete_or_die(self: object, paths: Iterable[str]) -> None:
        calls.append(1)
        # the first is the checkpoint's, of damaged ones
        if len(calls) > 2:
            raise Crash
        delete(paths)

    with patch.object(type(log.storage), "delete", delete_or_die), pytest.raises(Crash):
        delete_past(log)
    assert read_by_delta_rs(lake) == rows
