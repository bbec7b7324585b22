"""The settings of a latest log in `cdc.yaml`: the kind alone; how its topics are kept is said under `log`."""

from typing import Literal

from cdc.sinks.derived_settings import FedSettings


class LatestSettings(FedSettings):
    kind: Literal["latest"]
    """The kind of this follower."""
