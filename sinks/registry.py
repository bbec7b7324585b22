"""The kinds of followers; a new one is its own folder, its settings in the union here, and one case below.

Reading the configuration imports this file, so the followers' engines are imported only when a follower is made.
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
    """Make the follower of these settings; without Spark, only its state can be read."""
    match settings:
        case SearchSettings():
            from sinks.search.follower import SearchFollower

            return SearchFollower(spark, settings, owner.pipeline, owner.follower)
        case LatestSettings():
            from sinks.latest.follower import LatestFollower

            return LatestFollower(spark, log, owner.pipeline, owner.follower)


def refusal(settings: FollowerSettings, table: Table) -> PreconditionError | None:
    """The reason why this kind of follower cannot hold a captured table; None if it can."""
    try:
        match settings:
            case SearchSettings():
                from sinks.opensearch import layout as index

                index.check_table(table)
            case LatestSettings():
                from sinks.latest import layout as topic

                topic.check_table(table)
    except PreconditionError as error:
        return error
    return None
