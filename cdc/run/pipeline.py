"""Builds the parts of a pipeline from its settings: Spark's session, the lake, the followers."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from cdc.columns.feed import FedFollower
from cdc.config.settings import VIEWS, PipelineSettings
from cdc.core.errors import ConfigurationError
from cdc.local.fetch.jars import fetch, spark_jars
from cdc.progress import SILENT, Progress
from cdc.run.scratch import open_scratch
from cdc.run.spark import session
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.lake.storage import spark_s3a as s3a
from cdc.sinks.owner import Owner
from cdc.sinks.registry import fed_follower
from cdc.views.store import ViewStore

SUBMITTED = "CDC_SUBMITTED"
"""An environment variable that `cdc submit` sets for the driver: its master and class path are given."""


def build_spark_session(
    settings: PipelineSettings, name: str, *, brief: bool = False, progress: Progress = SILENT
) -> SparkSession:
    """Build the session of one verb; under `spark-submit`, in the application that was submitted.

    `brief`: see `SessionOptions`. `progress` shows the download of jars and the start of Spark.
    """
    title, access = f"cdc {name} {settings.pipeline.name}", settings.delta[1].access
    # a driver under spark-submit must not start a Java of its own
    if SUBMITTED in os.environ:
        built = session.build_submitted(title, spark_conf(settings))
    else:
        built = session.build(title, _session_options(settings, progress, brief=brief), spark_conf(settings))
    if access is not None:
        # into the running session, not into its settings: those are shown in Spark's UI and logs
        s3a.give_keys(built, access)
    return built


def spark_conf(settings: PipelineSettings) -> dict[str, str]:
    """Spark's settings beside master and memory; without secrets."""
    spark, access = settings.spark, settings.delta[1].access
    lake = s3a.conf(access) if access is not None else {}
    return {"spark.sql.shuffle.partitions": str(spark.shuffle_partitions), **lake, **spark.conf}


def fetch_lake_jars(settings: PipelineSettings, progress: Progress = SILENT) -> list[Path]:
    """Fetch the jars that Spark needs to reach the lake, beside those of every pipeline."""
    return [] if settings.delta[1].access is None else [*fetch(s3a.JARS, progress=progress)]


def _session_options(settings: PipelineSettings, progress: Progress, *, brief: bool) -> session.SessionOptions:
    spark = settings.spark
    state = Path(settings.pipeline.state)
    log = state / "logs" / "spark.log"
    jars = [str(jar) for jar in (*spark_jars(progress=progress), *fetch_lake_jars(settings, progress))]
    progress.step("spark", f"starting, with {spark.master}")
    return session.SessionOptions(spark.master, spark.driver_memory, jars, log, brief, open_scratch(state))


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
