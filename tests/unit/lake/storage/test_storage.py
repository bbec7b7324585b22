"""A folder and an object store keep the same promises, across processes."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.storage.base import Storage, open_storage
from tests.support.lake.places import CLOUDS, PLACES, PlacedLake, place_lake
from tests.support.parts.object_store_fixture import SECRET

LOG = "_delta_log"


@pytest.fixture(params=(*PLACES, *CLOUDS))
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    return place_lake(request, tmp_path)


@pytest.fixture
def storage(lake: PlacedLake) -> Storage:
    storage = open_storage(lake.path, lake.access)
    storage.make_root()
    return storage


def test_files_are_written_read_listed_and_deleted(storage: Storage) -> None:
    storage.write("a.bin", pa.py_buffer(b"one"))
    storage.write("a.bin", b"two")
    storage.write("below/b-1%20 x.bin", b"")
    assert (storage.read("a.bin"), storage.read("below/b-1%20 x.bin")) == (b"two", b"")
    assert storage.list_names("") == ["a.bin"]
    assert storage.list_names("below") == ["b-1%20 x.bin"]
    assert storage.list_names("bel") == storage.list_names("nowhere") == []
    storage.delete(["a.bin", "never.bin"])
    storage.delete([])
    assert storage.list_names("") == []


def test_a_missing_file_is_named(storage: Storage) -> None:
    for ask in (storage.read, storage.open):
        with pytest.raises(FileNotFoundError) as missing:
            ask("below/no.bin")
        assert str(missing.value.filename).endswith("below/no.bin")


def test_the_second_put_if_absent_returns_false(storage: Storage) -> None:
    assert storage.put_if_absent(f"{LOG}/0.json", b"first")
    assert not storage.put_if_absent(f"{LOG}/0.json", b"second")
    assert storage.read(f"{LOG}/0.json") == b"first"
    assert storage.put_if_absent(f"{LOG}/1.json", b"next", behind=f"{LOG}/0.json")


def test_put_if_absent_refuses_a_missing_predecessor(storage: Storage) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        storage.put_if_absent(f"{LOG}/8.json", b"x", behind=f"{LOG}/7.json")
    assert str(missing.value.filename).endswith("7.json")
    assert storage.list_names(LOG) == []


def table(rows: int) -> pa.Table:
    return pa.table({"id": range(rows), "text": [f"row {n}" * 20 for n in range(rows)]})


def test_a_parquet_file_is_read_in_parts(storage: Storage) -> None:
    rows = table(50_000)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=5000)
    storage.write("t.parquet", sink.getvalue())
    assert data_files.read(storage, "t.parquet", ["id", "text"]).equals(rows)
    picked = data_files.read_rows(storage, "t.parquet", ["text"], rows["id"].take(pa.array([49_999, 3])).to_numpy())
    assert picked["text"].to_pylist() == ["row 49999" * 20, "row 3" * 20]
    with storage.open("t.parquet") as file:
        assert (file.size(), file.read(4)) == (len(sink.getvalue()), b"PAR1")
        file.seek(-4, os.SEEK_END)
        assert file.read() == b"PAR1"


def test_a_file_in_parts_appears_when_complete(storage: Storage) -> None:
    part = os.urandom(1_000_000)
    with storage.open_writer("large.bin") as file:
        for _ in range(20):
            file.write(part)
        assert file.tell() == 20_000_000
        assert storage.list_names("") == [name for name in storage.list_names("") if name.startswith(".")]
    assert storage.read("large.bin") == part * 20
    assert storage.list_names("") == ["large.bin"]


def write_half(storage: Storage) -> None:
    with storage.open_writer("large.bin") as file:
        file.write(bytes(20_000_000))
        raise RuntimeError("broken")


def test_a_failed_file_in_parts_does_not_appear(storage: Storage, lake: PlacedLake) -> None:
    with pytest.raises(RuntimeError, match="broken"):
        write_half(storage)
    assert storage.list_names("") == []
    assert lake.files == Path() or _all_files(lake.files.parent) == []


def _all_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


WRITES = """
import pickle, resource, sys
storage = pickle.load(sys.stdin.buffer)
part = bytes(range(256)) * 4096
with storage.open_writer("streamed.bin") as file:
    for _ in range(int(sys.argv[1])):
        file.write(part)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def most_memory(storage: Storage, megabytes: int) -> int:
    """Peak memory in MiB of a process that writes this much."""
    command = [sys.executable, "-c", WRITES, str(megabytes)]
    ended = subprocess.run(command, input=pickle.dumps(storage), capture_output=True, check=True)
    return int(ended.stdout)


@pytest.mark.parametrize("lake", PLACES, indirect=True)
def test_memory_does_not_grow_with_written_bytes(storage: Storage) -> None:
    assert most_memory(storage, 128) - most_memory(storage, 32) < 32
    assert len(storage.read("streamed.bin")) == 32 * 2**20


RACES = """
import os, pickle, sys
storage = pickle.load(sys.stdin.buffer)
sys.stdin.close()
for n in range(int(sys.argv[1])):
    if storage.put_if_absent(f"_delta_log/{n}.json", f"{os.getpid()} {n}".encode() * 100):
        print(n)
"""


def test_one_of_many_processes_wins_each_name(storage: Storage) -> None:
    """They compete for the same names: the winner loses no time, so the others catch up."""
    command = [sys.executable, "-c", RACES, "100"]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)]
    for process in running:
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(storage))
        process.stdin.close()
    won = {process.pid: _numbers(process) for process in running}
    assert sorted(number for numbers in won.values() for number in numbers) == [*range(100)]
    for pid, numbers in won.items():
        for number in numbers:
            assert storage.read(f"{LOG}/{number}.json") == f"{pid} {number}".encode() * 100


def _numbers(process: "subprocess.Popen[bytes]") -> list[int]:
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.read()
    assert process.wait() == 0
    return [int(line) for line in said.split()]


def test_storage_pickles_and_its_repr_hides_secrets(storage: Storage) -> None:
    storage.write("a.bin", b"here")
    again: Storage = pickle.loads(pickle.dumps(storage))  # noqa: S301 - written just now
    assert again.read("a.bin") == b"here"
    assert SECRET not in repr(storage)


def test_a_removed_root_is_not_recreated(storage: Storage, lake: PlacedLake) -> None:
    storage.put_if_absent(f"{LOG}/0.json", b"0")
    if lake.files == Path():
        storage.delete([f"{LOG}/0.json"])
    else:
        shutil.rmtree(lake.files)
    with pytest.raises(FileNotFoundError):
        storage.put_if_absent(f"{LOG}/1.json", b"1", behind=f"{LOG}/0.json")
    assert storage.list_names(LOG) == []
    assert lake.files == Path() or not lake.files.exists()
