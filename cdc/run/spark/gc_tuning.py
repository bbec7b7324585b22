"""Makes Python's garbage collector run less often."""

import gc
from functools import cache
from typing import Final

THRESHOLDS: Final = (50_000, 20, 100)
"""`gc.set_threshold`: new objects per collection of the youngest generation, and collections per one of the older.

50,000 objects are a tenth of a second of messages. With the default, 700, half the time of reading messages goes into
looking for cycles, and there are none.
"""


@cache
def relax_gc() -> None:
    """Tune the collector for a process that reads many messages; objects imported by now are never scanned again.

    Only a process's first call does something: a second `gc.freeze` would keep what waits for the collector for ever,
    with its open files and clients.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
