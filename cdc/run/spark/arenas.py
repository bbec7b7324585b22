"""Memory given back to the system: what allocators keep for later would count for this process for hours.

Measured on a table of a million rows with 500 updates a second: glibc's arenas hold 100 MiB that nobody uses, since
each of a handful of threads has its own; Arrow's own pool, mimalloc, leaves a piece with each thread that ends, another
100 MiB in a thousand commits. So Arrow takes its memory from glibc, too (`cdc/__main__.py`).
"""

import ctypes
import gc
from collections.abc import Callable
from typing import Final

import pyarrow as pa

ARENAS: Final = 2
_M_ARENA_MAX: Final = -8
"""As <malloc.h> has it."""


def limit_arenas() -> None:
    """Let all threads share so many of glibc's arenas; with another C library, nothing."""
    _call("mallopt", _M_ARENA_MAX, ARENAS)


def release_memory() -> None:
    """Return what is free: some milliseconds, while which other threads may wait for memory."""
    # cycles, too, which `collector.seldom` leaves for hours; what was there at the start is not looked at again
    gc.collect()
    pa.default_memory_pool().release_unused()
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> None:
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)
