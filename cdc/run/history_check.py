"""Is what the lake holds the past of the source that the configuration names?"""

from cdc.config.settings import PipelineSettings
from cdc.core.position import Bookmark
from cdc.run.pipeline import delta_follower
from connect import source


def check_history(settings: PipelineSettings) -> None:
    """Raise HistoryLostError when the source is another cluster, or was set back behind what the lake holds.

    Only a copy knows its timeline; the position's is not kept, so it is measured by the source's end alone.
    """
    lake = delta_follower(None, settings)
    bookmarks, position = lake.bookmarks(), lake.position()
    if not bookmarks:
        return
    past = source.history(settings.source)
    for name, bookmark in bookmarks.items():
        past.check(bookmark, str(name))
    if position is not None:
        past.check(Bookmark(position.lsn, past.system_identifier, past.timeline), "the lake")
