"""Makes Python's garbage collector run less often."""

import gc
from typing import Final

THRESHOLDS: Final = (50_000, 20, 100)
"""`gc.set_threshold`: new objects per collection of the youngest generation, and collections per one of the older.

50,000 objects are a tenth of a second of messages. With the default, 700, half the time of reading messages goes into
looking for cycles, and there are none.
"""


def relax_gc() -> None:
    """Tune the collector for a process that reads many messages; objects imported by now are never scanned again."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
