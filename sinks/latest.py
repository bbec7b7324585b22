"""The latest log: one compacted topic a table."""

from typing import Literal

from cdc.core.settings import Settings


class LatestSettings(Settings):
    kind: Literal["latest"]
