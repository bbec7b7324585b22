"""The kinds of followers; a new one is its own folder, its settings in the union here, and one case below.

Whoever reads the configuration imports this file: what a follower is made of is imported when one is made.
"""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from cdc.core.errors import PreconditionError
from cdc.core.table import Table
from cdc.log.settings import LogSettings
from sinks.lake.settings import DeltaSettings
from sinks.latest.settings import LatestSettings
from sinks.owner import Owner
from sinks.search.settings import SearchSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc.columns.feed import FedFollower

FollowerSettings = Annotated[DeltaSettings | SearchSettings | LatestSettings, Field(discriminator="kind")]


def fed_follower(
    spark: "SparkSession | None", settings: SearchSettings | LatestSettings, owner: Owner, log: LogSettings
) -> "FedFollower":
    """The follower behind the lake that these settings ask for; without Spark, only to be asked where it stands."""
    match settings:
        case SearchSettings():
            from sinks.search.follower import SearchFollower

            return SearchFollower(spark, settings, owner.pipeline, owner.follower)
        case LatestSettings():
            from sinks.latest.follower import LatestFollower

            return LatestFollower(spark, log, owner.pipeline, owner.follower)


def refusal(settings: FollowerSettings, table: Table) -> PreconditionError | None:
    """Why this kind of follower cannot hold a table that can be captured; None where it can."""
    try:
        check_table(settings, table)
    except PreconditionError as found:
        return found
    return None


def check_table(settings: FollowerSettings, table: Table) -> None:
    """Raise PreconditionError for a table that can be captured, but that this kind of follower cannot hold."""
    match settings:
        case SearchSettings():
            from sinks.search import layout as index

            index.check_table(table)
        case LatestSettings():
            from sinks.latest import layout as topic

            topic.check_table(table)
