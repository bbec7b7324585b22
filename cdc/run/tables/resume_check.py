"""Checks that the lake has a copy, and that source and log are the ones it was copied and followed from."""

from contextlib import suppress

from cdc.connect.source import connection as source
from cdc.core.errors import HistoryLostError, UnreachableError
from cdc.core.position import Bookmark, Position
from cdc.log.names import transaction_topic
from cdc.log.transaction_topic import check_position
from cdc.run.health.continuity import check_continuity
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
    """Raise HistoryLostError when the source is another cluster, was set back, or cannot be captured further.

    A bookmark knows its timeline. The position does not, so it is only compared with the source's end.
    """
    lake = pipeline.lake_follower
    bookmarks, position = lake.bookmarks(), lake.position()
    if not bookmarks:
        return
    past = source.read_timeline(pipeline.settings.source)
    # every one: tables may have been copied before and after a switch of the source
    for name, bookmark in bookmarks.items():
        past.check(bookmark, str(name))
    if position is not None:
        past.check(Bookmark(position.lsn, past.system_identifier, past.timeline), "the lake")
        with pipeline.open_source() as connection:
            check_continuity(pipeline, connection, position)
