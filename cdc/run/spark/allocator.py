"""Limits what glibc keeps of freed memory. It imports no engine: their threads come after this is said."""

import ctypes
from collections.abc import Callable
from typing import Final

ARENAS: Final = 2
MAPPED_BYTES: Final = 256 * 1024
"""Buffers of this size are mapped, each by itself, and returned when they are freed."""
_TRIMMED_BYTES: Final = 4 * 1024 * 1024
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
"""From <malloc.h>."""


def limit_arenas() -> None:
    """Limit glibc to ARENAS arenas for all threads, and to small pieces there. Does nothing with another C library.

    Before numpy, Arrow and Kafka's client are imported, whose threads have arenas of their own: glibc takes away none
    that there is. Seven of them had 190 MiB of holes beside 1,500 changes a second.
    """
    call_c("mallopt", _M_ARENA_MAX, ARENAS)
    # to set it keeps glibc from moving it, and from what it trims by itself, which goes with it
    call_c("mallopt", _M_MMAP_THRESHOLD, MAPPED_BYTES)
    call_c("mallopt", _M_TRIM_THRESHOLD, _TRIMMED_BYTES)


def call_c(name: str, *arguments: int) -> None:
    """Call a function of the C library, if it has that."""
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)
