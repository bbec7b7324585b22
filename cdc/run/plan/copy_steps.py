"""The steps of a plan in the lake and in the followers behind it."""

from collections.abc import Iterator

from psycopg import Connection

from cdc.columns.feed import FedFollower
from cdc.connect.source.row_estimates import read_estimates
from cdc.core.table import TableName
from cdc.run.copy.bootstrap import find_uncopied, find_unlisted
from cdc.run.copy.bootstrap_checks import BootstrapChecks
from cdc.run.copy.fill import find_missing_at, find_missing_tables
from cdc.run.pipeline import Pipeline
from cdc.run.plan.step import PlannedStep, Sign
from cdc.run.views.kept_views import find_unfilled_views

BY_FOLLOW = "readers get it by `cdc follow`"


def list_copy_steps(pipeline: Pipeline, connection: Connection, checks: BootstrapChecks) -> Iterator[PlannedStep]:
    """The tables to copy and to leave, the views to fill, and what each follower behind the lake gets."""
    lake, to_copy = pipeline.lake_follower, find_uncopied(pipeline, checks.names, checks.again)
    bookmarks, later = lake.bookmarks(), f"; {BY_FOLLOW}" if lake.position() else ""
    for name, rows in read_estimates(connection, to_copy).items():
        sign, how = (Sign.CHANGE, "copied again") if name in bookmarks else (Sign.MAKE, "copied")
        amount = "not analysed yet" if rows is None else f"about {rows:,} rows"
        yield PlannedStep(sign, "table", str(name), f"{how}, {amount}{later}")
    for name in find_unlisted(pipeline, {*checks.names, *checks.skipped}):
        yield PlannedStep(Sign.LEAVE, "table", str(name), "not followed any more; followers keep its rows")
    for view in find_unfilled_views(pipeline):
        yield PlannedStep(Sign.MAKE, "view", str(view), "filled")
    for follower_name, follower in pipeline.fed.items():
        if lacking := _list_lacking(pipeline, follower_name, follower, checks, to_copy):
            yield PlannedStep(Sign.MAKE, "follower", follower_name, f"filled with {', '.join(map(str, lacking))}")


def _find_missing(pipeline: Pipeline, name: str, follower: FedFollower) -> list[TableName]:
    """The tables that the follower lacks; if it is to hold the first views, all, unless it is at the newest cut."""
    if not pipeline.settings.holds_views(name) or pipeline.views.cuts.last() is not None:
        return find_missing_tables(follower, pipeline.open_feed(name))
    # it goes by the views' cuts then, the first of which is at the newest of the tables
    feed = pipeline.open_table_feed(name)
    cut = feed.last_cut()
    if follower.position() == cut.position:
        return find_missing_at(follower, feed, cut)
    return [table.name for table, _ in feed.split_readable(cut)[0]]


def _list_lacking(
    pipeline: Pipeline, name: str, follower: FedFollower, checks: BootstrapChecks, to_copy: list[TableName]
) -> list[TableName]:
    """The tables and views that the follower is filled with: new ones of a lake with cuts come by its stream."""
    if pipeline.lake_follower.position() is None:
        tables = [table.name for table in checks.tables if pipeline.settings.holds_table(name, table)]
        lacking = [table for table in tables if table in to_copy]
    else:
        lacking = _find_missing(pipeline, name, follower)
    views = [view for view in find_unfilled_views(pipeline) if pipeline.settings.holds(name, view)]
    return list(dict.fromkeys([*lacking, *views]))
