"""Python's garbage collector, asked to look seldom."""

import gc
from typing import Final

THRESHOLDS: Final = (50_000, 20, 100)
"""Objects made before the youngest are looked at, and how many such looks before older ones are: a tenth of a second of
messages. By default it is 700, and half the time of reading them goes into looking for cycles, of which there are none.
"""


def relax_gc() -> None:
    """For processes that read many messages: what has been imported by now is not looked at again (gc.freeze)."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
