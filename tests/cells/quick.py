"""What a user's pipeline does each minute or hour, within the seconds of a cell."""

import importlib
from typing import Final

from tests.support.parts.pipelines import QUICKER

MAINTENANCE: Final = {
    "cdc.run.follow.maintenance.EVERY_SECONDS": 0.5,
    "cdc.run.follow.maintenance.POSITIONS_SECONDS": 2.0,
    "cdc.sinks.lake.table.maintenance.MAX_SMALL_FILES": 4,
    "cdc.sinks.lake.delta.checkpoint.CHECKPOINT_EVERY": 5,
}
RETENTION_HOURS: Final = 0.025
"""What VACUUM leaves: 90 seconds. A reader that looks less often finds out a minute later that its past is gone."""


def quicken() -> None:
    """Let this process wait for less, and maintain its lake after a few commits."""
    for name, value in {**QUICKER, **MAINTENANCE}.items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, value)
