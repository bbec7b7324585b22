"""The settings of a latest log in `cdc.yaml`: the kind alone; how its topics are kept is said under `log`."""

from typing import Literal

from cdc.core.settings import Settings


class LatestSettings(Settings):
    kind: Literal["latest"]
