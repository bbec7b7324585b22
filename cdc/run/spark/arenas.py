"""Returns unused memory to the system, which allocators would keep for hours.

Measured with a table of a million rows and 500 updates a second: glibc's arenas hold 100 MiB of free memory, since each
of a handful of threads has its own. Arrow's pool, mimalloc, leaves a piece with each thread that ends, another 100 MiB
in a thousand commits. So Arrow takes its memory from glibc, too (`cdc/__main__.py`). There, a freed buffer that glibc
has mapped makes it take larger ones, up to 32 MiB, from the arenas, where each leaves a hole: beside 1,500 changes a
second with views and searches, 240 MiB of 400 were holes.
"""

import ctypes
import gc
import threading
import time
from collections.abc import Callable
from typing import Final

import pyarrow as pa

RELEASE_SECONDS: Final = 5.0
"""Pause between two releases of free memory."""
COLLECTING: Final = 0.01
"""The share of the time in which reference cycles are looked for."""
ARENAS: Final = 2
MAPPED_BYTES: Final = 256 * 1024
"""Buffers of this size are mapped, each by itself, and returned when they are freed."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
"""From <malloc.h>."""
_TRIMMED_BYTES: Final = 4 * 1024 * 1024


def limit_arenas() -> None:
    """Limit glibc to ARENAS arenas for all threads, and to small pieces there. Does nothing with another C library."""
    _call("mallopt", _M_ARENA_MAX, ARENAS)
    # to set it keeps glibc from moving it, and from what it trims by itself, which goes with it
    _call("mallopt", _M_MMAP_THRESHOLD, MAPPED_BYTES)
    _call("mallopt", _M_TRIM_THRESHOLD, _TRIMMED_BYTES)


def release_memory() -> None:
    """Return free memory, that of reference cycles, too, which `relax_gc` leaves for hours."""
    # objects frozen at the start are not scanned
    gc.collect()
    _trim()


def _trim() -> None:
    """Takes some milliseconds, in which other threads may wait for memory."""
    pa.default_memory_pool().release_unused()
    _call("malloc_trim", 0)


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


def _call(name: str, *arguments: int) -> None:
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)
