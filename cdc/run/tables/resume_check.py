"""Checks that the lake has a copy, and that source and log are the ones it was copied and followed from."""

from contextlib import suppress

from cdc.connect.source.upgrade import Upgrade
from cdc.core.errors import HistoryLostError, UnreachableError
from cdc.core.position import Position
from cdc.log.names import transaction_topic
from cdc.log.transaction_topic import check_position
from cdc.run.health.continuity import check_continuity
from cdc.run.health.upgrade import find_new_cluster
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.follower import DeltaFollower


def require_position(lake: DeltaFollower) -> Position:
    """The lake's position. Raises HistoryLostError when it has none, since nothing was ever copied."""
    position = lake.position()
    if position is None:
        raise HistoryLostError("the lake has no copy to go on from", "run `cdc bootstrap` first")
    return position


def check_log(pipeline: Pipeline) -> None:
    """Raise HistoryLostError when there is no copy, or when the log no longer holds the lake's position.

    A log that does not answer is no error here: the streams wait for it.
    """
    lake = pipeline.lake_follower
    position = require_position(lake)
    lake.cuts.check_capture()
    with suppress(UnreachableError), pipeline.open_log() as reader:
        check_position(reader, transaction_topic(pipeline.settings.log.prefix), position)


def check_timeline(pipeline: Pipeline) -> None:
    """Raise HistoryLostError when the source is another cluster, was set back, or cannot be captured further, and
    PreconditionError when pg_upgrade has made it, which a bootstrap goes on after."""
    if upgrade := check_resumable(pipeline):
        raise upgrade.to_error()


def check_resumable(pipeline: Pipeline) -> Upgrade | None:
    """Raise HistoryLostError like `check_timeline`; returns what pg_upgrade has done since the source was captured."""
    upgrade, position = find_new_cluster(pipeline), pipeline.lake_follower.position()
    if upgrade is None and position is not None and pipeline.lake_follower.bookmarks():
        with pipeline.open_source() as connection:
            check_continuity(pipeline, connection, position)
    return upgrade
