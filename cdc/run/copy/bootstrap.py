"""`cdc bootstrap`: creates a pipeline in an order in which no change is lost. A second run goes on where one ended.

The order, each step committed before the next:

1. the publication of the tables
2. the tables' filenodes, to notice a rewrite
3. the slot with its snapshot
4. a session that holds the snapshot and makes it readable for others
5. the connector, so that somebody reads the slot during the copy
6. the parallel copy into the lake
7. the views, and the followers behind the lake

A table that joins later gets a temporary slot, once a row has come through the log that was written after the connector
knew the table.
"""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from cdc.columns.feed import FedFollower
from cdc.config.settings import VIEWS
from cdc.connect.capture import connector
from cdc.connect.source import publication
from cdc.connect.source.catalog import TablesRefusedError
from cdc.connect.source.slots import slot
from cdc.connect.source.upgrade import note_upgrade
from cdc.core.errors import IncompleteError
from cdc.core.fail_points import reach
from cdc.core.position import Bookmark
from cdc.core.table import TableName
from cdc.progress import Progress
from cdc.run.copy.bootstrap_checks import BootstrapChecks, check_bootstrap
from cdc.run.copy.capture_setup import prepare_capture
from cdc.run.copy.fill import TableFiller, find_missing_tables, has_followed_another_lake
from cdc.run.copy.fill_bar import open_fill_bar
from cdc.run.copy.snapshot_copy import (
    NOTHING_COPIED,
    CopyContext,
    CopyResult,
    copy_on_pipeline_slot,
    copy_on_temporary_slot,
    copy_with_restarts,
    start_capture,
)
from cdc.run.lease import COPIES
from cdc.run.pipeline import Pipeline
from cdc.run.tables import problems
from cdc.run.tables.schema_check import list_parted
from cdc.run.trouble_log import trouble_log
from cdc.run.views.kept_histories import describe_history_problems
from cdc.run.views.kept_views import describe_stopped_views, find_unfilled_views, find_views_over, open_keeper
from cdc.run.views.view_definitions import define_present_views
from cdc.sinks.lake.feed.change_cache import ChangeCache


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """The outcome of a bootstrap.

    `copied`: rows by table copied now. `bookmarks`: of all tables that the lake has. `loaded`: for each follower behind
    the lake that was filled, the tables that it lacked. `filled`: views. `has_started`: the connector, which did not
    run, or ran with another configuration.
    """

    copied: dict[TableName, int] = field(default_factory=dict)
    bookmarks: dict[TableName, Bookmark] = field(default_factory=dict)
    loaded: dict[str, list[TableName]] = field(default_factory=dict)
    filled: Sequence[TableName] = ()
    has_started: bool = False

    @property
    def has_changed(self) -> bool:
        """Has any follower or view got rows?"""
        return bool(self.copied or self.loaded or self.filled)


def bootstrap(
    pipeline: Pipeline,
    say: Callable[[str], None],
    progress: Progress,
    again: Sequence[TableName] = (),
) -> BootstrapResult:
    """Create the missing parts, copy tables without a bookmark and those in `again`, and fill the followers behind.

    Checks everything first that can be checked, before it makes anything. Spark starts only when there is something to
    copy or to fill. `say` gets a line per step, `progress` a bar per table. Raises CdcError.
    """
    with pipeline.open_source() as connection, pipeline.open_connect() as client:
        checks = check_bootstrap(pipeline, connection, again)
        for name in _find_written(pipeline, checks):
            pipeline.leases.require_free(name)
        for line in checks.lines():
            say(line)
        # before the lease: every step makes only missing parts, and two processes make the same ones
        anew = list_parted(pipeline, find_uncopied(pipeline, checks.names, checks.again))
        registered = prepare_capture(pipeline, connection, checks.tables, say, anew=anew)
        if checks.upgrade:
            # the offsets are of the old cluster; before the note: after a kill in between this is done again
            connector.forget(client, pipeline.settings.connect.connector, pipeline.settings.log)
            note_upgrade(connection, pipeline.settings.source, pipeline.name, checks.upgrade)
        pipeline.requests.forget_teardown()
        with pipeline.leases.hold(COPIES), trouble_log(pipeline.state):
            # under the lease: another bootstrap may have finished the copies a moment ago
            pipeline.look_again()
            captured = checks.names
            if checks.again or not _has_all_copies(pipeline, captured):
                # before the followers behind the lake are opened, which it fills
                pipeline.start_spark()
            context = CopyContext(pipeline, connection, client, captured, registered, say, progress)
            _release_unlisted(context, [*captured, *checks.skipped])
            return _copy_and_fill(context, checks)


def _find_written(pipeline: Pipeline, checks: BootstrapChecks) -> list[str]:
    """The leases that nobody may hold meanwhile, as far as that is known before anything is made."""
    has, unfilled = pipeline.lake_follower.bookmarks(), find_unfilled_views(pipeline)
    replaces = bool(find_unlisted(pipeline, [*checks.names, *checks.skipped]) or checks.again.keys() & has)
    lake = [pipeline.lake_name] if replaces else []
    views = [VIEWS] if unfilled else []
    fed = [name for name in pipeline.fed if any(pipeline.settings.holds(name, view) for view in unfilled)]
    written = [*lake, *views, *fed]
    # first: another bootstrap has these leases, too
    return [COPIES, *written] if written else []


def find_unlisted(pipeline: Pipeline, listed: Collection[TableName]) -> list[TableName]:
    """The followed tables that are not among the listed ones."""
    return [name for name in pipeline.lake_follower.bookmarks() if name not in listed]


def _release_unlisted(context: CopyContext, listed: Collection[TableName]) -> None:
    """Stop following, and capturing, the tables that the configuration no longer lists."""
    follower, left_out = context.pipeline.lake_follower, find_unlisted(context.pipeline, listed)
    if left_out:
        # a running `cdc follow` would go on to put them into cuts
        with context.pipeline.leases.hold(context.pipeline.lake_name):
            # in this order: after a kill in between they are still followed, and the next run leaves them out
            publication.withdraw(context.connection, context.registration.publication, left_out)
            follower.release(left_out)
        names = ", ".join(map(str, left_out))
        context.say(f"{names}: left out; followers keep its rows, and copy it anew when it is listed again")


def _has_all_copies(pipeline: Pipeline, names: Sequence[TableName]) -> bool:
    """Has every table its copy in the lake and in the followers behind it, so that Spark has nothing to do?"""
    lake = pipeline.lake_follower
    fed = pipeline.fed.items()
    if lake.position() is None:
        return False
    # the views first: a follower that holds one has no feed before
    if not set(names) <= set(lake.bookmarks()) or find_unfilled_views(pipeline):
        return False
    return not any(find_missing_tables(follower, pipeline.open_feed(name)) for name, follower in fed)


def _copy_and_fill(context: CopyContext, checks: BootstrapChecks) -> BootstrapResult:
    follower = context.pipeline.lake_follower
    to_replace = [name for name in checks.again if name in follower.bookmarks()]
    if to_replace:
        # readers keep the old rows until the new copy is there; the stream goes on with the other tables
        with context.pipeline.leases.hold(context.pipeline.lake_name):
            follower.tables.stop(dict.fromkeys(to_replace, "it is to be copied again"), copy=to_replace)
    for problem in problems.describe_stops(context.pipeline):
        context.say(str(problem))
    follower.prepare(checks.tables)
    copied, has_started = _copy_missing(context, to_replace)
    for name in copied.refused.keys() & checks.optional:
        context.say(f"not copied: {copied.refused[name]}")
    refusals = [refusal for name, refusal in copied.refused.items() if name not in checks.optional]
    if not follower.bookmarks():
        raise TablesRefusedError(refusals or copied.refused.values())
    reach("bootstrap.copied")
    # after the copies, before the other followers: those are filled from a cut
    follower.first_cut(int(time.time() * 1000))
    reach("bootstrap.cut")
    for problem in describe_history_problems(context.pipeline):
        context.say(str(problem))
    filled = _fill_views(context)
    loaded = _fill_followers(context)
    fed = context.pipeline.fed
    refusals += chain.from_iterable(
        problems.describe_stops_in(context.pipeline, name, follower) for name, follower in fed.items()
    )
    # the new copies are in no cut yet
    stopped = describe_stopped_views(context.pipeline, find_views_over(context.pipeline, to_replace))
    if refusals:
        raise TablesRefusedError([*refusals, *stopped])
    if stopped:
        raise IncompleteError(stopped)
    return BootstrapResult(copied.rows, follower.bookmarks(), loaded, filled, has_started)


def find_uncopied(pipeline: Pipeline, captured: Sequence[TableName], again: Collection[TableName]) -> list[TableName]:
    """The captured tables that a bootstrap copies: those without a copy, and those to be copied `again`."""
    has = pipeline.lake_follower.bookmarks()
    return [name for name in captured if name not in has or name in again]


def _copy_missing(context: CopyContext, again: Sequence[TableName]) -> tuple[CopyResult, bool]:
    """Copy what is to be copied; also returns whether the connector was started."""
    follower = context.pipeline.lake_follower
    has = follower.bookmarks()
    missing = find_uncopied(context.pipeline, context.captured, again)
    state = slot.read_slot(context.connection, context.pipeline.settings.source)
    # copies without a slot: the changes since then are lost
    if has:
        slot.check_exists(state, context.registration.slot)
    if state is None:
        return copy_with_restarts(context, copy_on_pipeline_slot, follower, missing), True
    # before any copy: the slot keeps WAL until somebody reads it, and the log has a table's changes only from the time
    # when the connector knows the table
    has_started = start_capture(context)
    copied = copy_with_restarts(context, copy_on_temporary_slot, follower, missing) if missing else NOTHING_COPIED
    return copied, has_started


def _fill_views(context: CopyContext) -> list[TableName]:
    """Fill the views that were never filled, at the newest cut; returns those that are filled now."""
    pipeline, cut = context.pipeline, context.pipeline.lake_follower.cuts.last()
    if cut is None or not (unfilled := find_unfilled_views(pipeline)):
        return []
    with pipeline.leases.hold(VIEWS):
        keeper = open_keeper(pipeline, ChangeCache(0), context.say)
        try:
            keeper.bring(cut)
        finally:
            keeper.close()
        keeper.save()
    for name in find_unfilled_views(pipeline):
        context.say(f"view {name} is filled by `cdc follow`, at the next cut")
    store = pipeline.views
    shown = {view.name for view in define_present_views(pipeline) if store.find_in(store.cuts.last(), view)}
    return [name for name in unfilled if name in shown]


def _fill_followers(context: CopyContext) -> dict[str, list[TableName]]:
    """Fill the followers behind the lake that are new, have lost a table, or have followed another lake."""
    reach("bootstrap.views")
    loaded: dict[str, list[TableName]] = {}
    for name, follower in context.pipeline.fed.items():
        feed = context.pipeline.open_feed(name)
        missing = find_missing_tables(follower, feed)
        if missing:
            context.say(f"filling {name}")
            # its stream would fill it, too; two at once would drop each other's tables
            with context.pipeline.leases.hold(name), closing(follower):
                if has_followed_another_lake(follower, feed):
                    context.say(f"{name} {_explain_full_copy(context.pipeline, follower)}")
                    # before the copies: after a kill in between, the next run copies all tables again
                    follower.forget_position()
                open_bar = partial(open_fill_bar, context.progress, name, follower)
                TableFiller(name, follower, feed, context.say, open_bar).resume()
            loaded[name] = missing
    return loaded


def _explain_full_copy(pipeline: Pipeline, follower: FedFollower) -> str:
    if has_followed_another_lake(follower, pipeline.open_whole_feed()):
        return "followed another lake: all of its tables are copied from this one"
    return "goes by the cuts that have views, and none is where it stands: all of its tables are copied again"
