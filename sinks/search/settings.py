"""The settings of a search index in `cdc.yaml`."""

from typing import Literal

from cdc.sinks.opensearch.settings import ClusterSettings


class SearchSettings(ClusterSettings):
    kind: Literal["search"]
    """The kind of this follower."""
