"""Returns unused memory to the system, which allocators would keep for hours.

Measured with a table of a million rows and 500 updates a second: glibc's arenas hold 100 MiB of free memory, since each
of a handful of threads has its own. Arrow's pool, mimalloc, leaves a piece with each thread that ends, another 100 MiB
in a thousand commits. So Arrow takes its memory from glibc, too (`cdc/__main__.py`).
"""

import ctypes
import gc
from collections.abc import Callable
from typing import Final

import pyarrow as pa

ARENAS: Final = 2
_M_ARENA_MAX: Final = -8
"""From <malloc.h>."""


def limit_arenas() -> None:
    """Limit glibc to ARENAS arenas for all threads. Does nothing with another C library."""
    _call("mallopt", _M_ARENA_MAX, ARENAS)


def release_memory() -> None:
    """Return free memory. Takes some milliseconds, in which other threads may wait for memory."""
    # reference cycles first, which `relax_gc` leaves for hours; objects frozen at the start are not scanned
    gc.collect()
    pa.default_memory_pool().release_unused()
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> None:
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)
