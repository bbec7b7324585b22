"""What a repair hands over has rows: nothing of it stays when it is not handed over, or taken back."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.run.repair.streams import Streams
from cdc.run.repair_requests import GONE, TABLE, RepairAnswer, RepairRequest, RepairRequests

KEYS = pa.table({"id": [1]})


def make_request(table: str) -> RepairRequest:
    rows = pa.table({"id": [2], "secret": ["of a row"]})
    return RepairRequest(TableName("shop", table), rows, KEYS)


def refuse_rename(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the disk refuse what comes after so many files."""
    replace, seen = Path.replace, list[Path]()

    def fail(self: Path, target: Path) -> Path:
        seen.append(self)
        if len(seen) > after:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)


def test_a_request_that_cannot_be_written_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_rename(monkeypatch, after=0)
    with pytest.raises(PreconditionError, match="No space left"):
        RepairRequests(tmp_path / "repairs").submit(make_request("orders"), TABLE)
    assert [*(tmp_path / "repairs").iterdir()] == []


def test_requests_before_one_that_fails_are_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_rename(monkeypatch, after=1)
    requests = RepairRequests(tmp_path / "repairs")
    pipeline = cast(Any, SimpleNamespace(repair_requests=requests))
    streams = Streams(pipeline, ["lake"], cast(Any, None), lambda: None, patience=0.0)
    with pytest.raises(PreconditionError, match="No space left"):
        streams.put_right([make_request("orders"), make_request("items")], TABLE)
    assert [*(tmp_path / "repairs").iterdir()] == []


def test_a_request_that_was_taken_back_is_not_answered(tmp_path: Path) -> None:
    requests = RepairRequests(tmp_path / "repairs")
    id = requests.submit(make_request("orders"), TABLE)
    requests.withdraw([id])
    requests.answer(id, RepairAnswer(7))
    assert [*(tmp_path / "repairs").iterdir()] == []


@pytest.mark.parametrize(
    "request_of",
    [make_request("orders"), RepairRequest.of_history(TableName("shop", "orders"))],
    ids=["rows", "history"],
)
def test_a_request_is_read_as_it_was_made(request_of: RepairRequest, tmp_path: Path) -> None:
    requests = RepairRequests(tmp_path / "repairs")
    id = requests.submit(request_of, TABLE)
    [found] = requests.read(TABLE).items()
    assert found == (id, request_of)


def test_a_request_that_cannot_be_read_ends_no_stream(tmp_path: Path) -> None:
    requests = RepairRequests(tmp_path / "repairs")
    id = requests.submit(make_request("orders"), TABLE)
    held = make_request("orders").to_file()
    # an operator that Arrow does not have for a type is no value that is wrong
    other = held.drop_columns([GONE]).append_column(GONE, pa.nulls(len(held)))
    with pa.OSFile(str(tmp_path / "repairs" / f"{id}{TABLE}"), "wb") as file, pa.ipc.new_file(file, other.schema) as to:
        to.write_table(other)
    assert requests.read(TABLE) == {}
    assert not requests.is_pending()
