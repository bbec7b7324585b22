"""Unused memory goes back to the system."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from cdc.run.spark.arenas import limit_arenas, release_memory


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


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
