"""Builds the parts of a pipeline from its settings: the lake, the followers, the views.

Workers import this module with tasks of the modules that use it, so it imports nothing of `cdc.local`.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from cdc.columns.feed import FedFollower
from cdc.config.settings import VIEWS, PipelineSettings
from cdc.core.errors import ConfigurationError
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.owner import Owner
from cdc.sinks.registry import fed_follower
from cdc.views.store import ViewStore


def lake_of(settings: PipelineSettings) -> Lake:
    """The lake's location, with the name under which it stores its positions."""
    lake = settings.delta[1]
    return Lake(lake.path, settings.pipeline.name, lake.access)


def delta_follower(settings: PipelineSettings, recent: ChangeCache | None = None) -> DeltaFollower:
    """The lake's follower; it adds its changes to `recent`."""
    indexes = _indexes(settings)
    return DeltaFollower(settings.delta[1], lake_of(settings), indexes, recent, settings.histories)


def _indexes(settings: PipelineSettings) -> Path:
    # a cache: an index of keys that is lost is read again from the lake
    return Path(settings.pipeline.state) / "index" / settings.pipeline.name


def fed_followers(spark: SparkSession | None, settings: PipelineSettings) -> dict[str, FedFollower]:
    """The followers behind the lake, by name; without Spark, only their state can be read."""
    return {
        name: fed_follower(spark, follower, Owner(settings.pipeline.name, name), settings.log)
        for name, follower in settings.followers.items()
        if not isinstance(follower, DeltaSettings)
    }


def feed_of(
    settings: PipelineSettings, follower: str, spark: SparkSession | None, recent: ChangeCache | None = None
) -> LakeFeed:
    """The lake's changes for a follower behind it; without Spark, only metadata can be read."""
    holds, fits = partial(settings.holds, follower), partial(settings.holds_table, follower)
    return LakeFeed(spark, lake_of(settings), recent, holds, fits, with_views=settings.holds_views(follower))


def view_store(settings: PipelineSettings) -> ViewStore:
    """The views of the lake."""
    return ViewStore(lake_of(settings), _indexes(settings))


def select_followers(settings: PipelineSettings, names: Sequence[str]) -> list[str]:
    """The followers of these names, or all if there are none; the views count as one.

    Raises ConfigurationError for an unknown name.
    """
    there = [*settings.followers, *([VIEWS] if settings.views else [])]
    for name in names:
        if name not in there:
            raise ConfigurationError(f"there is no follower {name}", f"cdc.yaml has {', '.join(there)}")
    return list(dict.fromkeys(names or there))
