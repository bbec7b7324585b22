"""The kinds of followers; a new one is its own folder, its settings in the union here, and one case below.

Reading the configuration imports this file, so the followers' engines are imported only when a follower is made.
"""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from cdc.core.errors import PreconditionError
from cdc.core.table import Table
from cdc.log.settings import LogSettings
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.latest.settings import LatestSettings
from cdc.sinks.owner import Owner
from cdc.sinks.percolator.settings import PercolatorSettings
from cdc.sinks.search.settings import SearchSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc.columns.feed import FedFollower
    from cdc.sinks.search.follower import SearchFollower

FedKinds = SearchSettings | LatestSettings | PercolatorSettings
FollowerSettings = Annotated[DeltaSettings | FedKinds, Field(discriminator="kind")]


def fed_follower(spark: "SparkSession | None", settings: FedKinds, owner: Owner, log: LogSettings) -> "FedFollower":
    """Make the follower of these settings; without Spark, only its state can be read."""
    match settings:
        case SearchSettings():
            from cdc.sinks.search.follower import SearchFollower

            return SearchFollower(spark, settings, owner.pipeline, owner.follower)
        case LatestSettings():
            from cdc.sinks.latest.follower import LatestFollower

            return LatestFollower(spark, log, owner.pipeline, owner.follower)
        case PercolatorSettings():
            from cdc.sinks.percolator.follower import PercolatorFollower
            from cdc.sinks.search.follower import SearchFollower

            # the rows are kept as kind search keeps them, and no kind imports another: so it is given them
            rows = SearchFollower(spark, settings, owner.pipeline, owner.follower)
            return PercolatorFollower(rows, settings, log, owner)


def index_generation(
    spark: "SparkSession", settings: SearchSettings, owner: Owner, generation: str
) -> "SearchFollower":
    """A generation of an index that nobody searches, as a follower of its own."""
    from cdc.sinks.search.follower import SearchFollower

    return SearchFollower(spark, settings, owner.pipeline, owner.follower, generation)


def is_kept_in_log(settings: FollowerSettings) -> bool:
    """Does a follower of this kind keep its position in topics of the log's Kafka?"""
    return isinstance(settings, LatestSettings | PercolatorSettings)


def find_refusal(settings: FollowerSettings, table: Table) -> PreconditionError | None:
    """The reason why this kind of follower cannot hold a captured table; None if it can."""
    try:
        match settings:
            case SearchSettings():
                from cdc.sinks.search.table_shapes import check_table

                check_table(table, settings)
            case PercolatorSettings():
                from cdc.sinks.percolator import layout as percolator

                percolator.check_table(table, settings)
            case LatestSettings():
                from cdc.sinks.latest import layout as topic

                topic.check_table(table)
    except PreconditionError as error:
        return error
    return None
