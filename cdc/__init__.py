"""A change-data-capture toolkit. `cdc.programs` says what programs call."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdc.programs import (
        CutFrames,
        LakeCut,
        PipelineReader,
        TableVersion,
        as_of,
        changes,
        cut,
        open,
        read,
        token,
        wait,
    )

__all__ = [
    "CutFrames",
    "LakeCut",
    "PipelineReader",
    "TableVersion",
    "as_of",
    "changes",
    "cut",
    "open",
    "read",
    "token",
    "wait",
]

# it warns of whatever is tried again, on stderr where no handler wants it: who tries again says what there is to say
_retry_log = logging.getLogger("stamina")
_retry_log.addHandler(logging.NullHandler())
# the root logger has a handler once Spark has started
_retry_log.propagate = False


def __getattr__(name: str) -> Any:
    # imported when it is asked for: the command line starts without Spark
    if name in __all__:
        return getattr(import_module("cdc.programs"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
