"""Returns unused memory to the system, which allocators would keep for hours.

Measured with a table of a million rows and 500 updates a second: glibc's arenas hold 100 MiB of free memory, since each
of a handful of threads has its own. Arrow's pool, mimalloc, leaves a piece with each thread that ends, another 100 MiB
in a thousand commits. So Arrow takes its memory from glibc, too (`cdc/__main__.py`). There, a freed buffer that glibc
has mapped makes it take larger ones, up to 32 MiB, from the arenas, where each leaves a hole: beside 1,500 changes a
second with views and searches, 240 MiB of 400 were holes. `allocator.py` limits both.
"""

import gc
import threading
import time
from typing import Final

import pyarrow as pa

from cdc.run.spark.allocator import call_c

RELEASE_SECONDS: Final = 5.0
"""Pause between two releases of free memory."""
COLLECTING: Final = 0.01
"""The share of the time in which reference cycles are looked for."""


def release_memory() -> None:
    """Return free memory, that of reference cycles, too, which `relax_gc` leaves for hours."""
    # objects frozen at the start are not scanned
    gc.collect()
    _trim()


def _trim() -> None:
    """Takes some milliseconds, in which other threads may wait for memory."""
    pa.default_memory_pool().release_unused()
    call_c("malloc_trim", 0)


def release_regularly(ended: threading.Event) -> None:
    """Release memory again and again: each batch leaves holes of 100 MiB. Cycles are looked for COLLECTING of the time:
    a look goes through all objects, with two million matches of saved searches half a second in which nobody works."""
    due = 0.0
    while not ended.wait(RELEASE_SECONDS):
        began = time.monotonic()
        if began < due:
            _trim()
        else:
            release_memory()
            released = time.monotonic()
            due = released + (released - began) / COLLECTING
