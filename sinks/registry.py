"""The kinds of followers; a new one is its own folder and one line here."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from pyspark.sql import SparkSession

from cdc.columns.feed import FedFollower
from cdc.log.settings import LogSettings
from sinks.lake.settings import DeltaSettings
from sinks.latest.follower import LatestFollower
from sinks.latest.settings import LatestSettings
from sinks.search.follower import SearchFollower
from sinks.search.settings import SearchSettings

FollowerSettings = Annotated[DeltaSettings | SearchSettings | LatestSettings, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True)
class Naming:
    """Which follower of which pipeline."""

    pipeline: str
    follower: str


def fed_follower(
    spark: SparkSession | None, settings: SearchSettings | LatestSettings, naming: Naming, log: LogSettings
) -> FedFollower:
    """The follower behind the lake that these settings ask for; without Spark, only to be asked where it stands."""
    match settings:
        case SearchSettings():
            return SearchFollower(spark, settings, naming.pipeline, naming.follower)
        case LatestSettings():
            return LatestFollower(spark, log, naming.pipeline, naming.follower)
