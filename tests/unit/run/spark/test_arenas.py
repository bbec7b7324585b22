"""Unused memory goes back to the system."""

import ctypes
import gc
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from cdc.run.spark import arenas
from cdc.run.spark.allocator import ARENAS, limit_arenas
from cdc.run.spark.arenas import release_memory, release_regularly

ROOT = Path(__file__).parents[4]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


COUNTING = """
import sys, threading
from cdc.cli.verbs import pipeline
from cdc.run.spark.allocator import limit_arenas
assert not {"numpy", "pyarrow", "pyspark"} & {*sys.modules}, "their threads have arenas already"
limit_arenas()
import confluent_kafka, numpy, pyarrow

both = threading.Barrier(12)
def take():
    pieces = [bytes(3000) for _ in range(1000)]
    both.wait()
threads = [threading.Thread(target=take) for _ in range(12)]
for each in threads:
    each.start()
for each in threads:
    each.join()

import ctypes
c = ctypes.CDLL(None)
c.fopen.restype = ctypes.c_void_p
told = ctypes.c_void_p(c.fopen(sys.argv[1].encode(), b"w"))
c.malloc_info(0, told)
c.fclose(told)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="where the C library is glibc")
def test_all_threads_share_two_arenas(tmp_path: Path) -> None:
    told = tmp_path / "malloc.xml"
    subprocess.run([sys.executable, "-c", COUNTING, told], cwd=ROOT, check=True)
    assert told.read_text().count("<heap ") == ARENAS


@pytest.mark.skipif(sys.platform != "linux", reason="where /proc tells what a process has")
def test_freed_memory_returns_to_the_system() -> None:
    limit_arenas()
    # pieces that are no mappings of their own, below one that stays
    pieces = [bytearray(50_000) for _ in range(4000)]
    buffers = [pa.allocate_buffer(1_000_000) for _ in range(100)]
    kept, held = bytearray(50_000), resident_bytes()
    del pieces, buffers
    release_memory()
    assert held - resident_bytes() > 100_000_000
    assert kept


def test_cycles_are_looked_for_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is trimmed each time."""
    now, looks, trims, ended = [0.0], list[float](), list[float](), threading.Event()

    def look() -> None:
        looks.append(now[0])
        now[0] += 0.5

    def wait(seconds: float) -> bool:
        now[0] += seconds
        return now[0] > 600

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(gc, "collect", look)
    monkeypatch.setattr(arenas, "_trim", lambda: trims.append(now[0]))
    monkeypatch.setattr(ended, "wait", wait)
    release_regularly(ended)
    assert 9 <= len(looks) <= 12
    assert len(trims) > 100
