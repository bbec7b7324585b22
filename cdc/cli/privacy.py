"""Who may read what a verb writes: lake, state, logs, copies. Nothing else in the toolkit decides it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

UMASKS: Final = {"owner": 0o077, "group": 0o027, "all": 0o022}
"""By `pipeline.readable_by`: the bits that new files do not get; processes that a verb starts inherit them."""

_is_kept = ContextVar("kept", default=False)


@contextmanager
def keep_private() -> Iterator[None]:
    """New files are the owner's alone as long as the context lasts, unless `allow` says more."""
    before = os.umask(UMASKS["owner"])
    kept = _is_kept.set(True)
    try:
        yield
    finally:
        # whoever calls a verb as a function, as tests do, keeps its own
        _is_kept.reset(kept)
        os.umask(before)


def allow(readers: str) -> None:
    """Let `readers` read what is written from now on, in a context of `keep_private`."""
    if _is_kept.get():
        os.umask(UMASKS[readers])
