"""The steps of a plan in the lake and in the followers behind it."""

from collections.abc import Iterator

from psycopg import Connection

from cdc.columns.feed import FedFollower
from cdc.connect.source.row_estimates import estimate_rows
from cdc.core.table import TableName
from cdc.run.copy.bootstrap import find_uncopied, find_unlisted
from cdc.run.copy.bootstrap_checks import BootstrapChecks
from cdc.run.copy.fill import find_missing_tables
from cdc.run.kept_views import find_unfilled_views
from cdc.run.pipeline import Pipeline
from cdc.run.plan.step import PlannedStep, Sign

BY_FOLLOW = "readers get it by `cdc follow`"


def list_copy_steps(pipeline: Pipeline, connection: Connection, checks: BootstrapChecks) -> Iterator[PlannedStep]:
    """The tables to copy and to leave, the views to fill, and what each follower behind the lake gets."""
    lake, to_copy = pipeline.lake_follower, find_uncopied(pipeline, checks.names, checks.again)
    bookmarks, later = lake.bookmarks(), f"; {BY_FOLLOW}" if lake.position() else ""
    for name, rows in estimate_rows(connection, to_copy).items():
        sign, how = (Sign.CHANGE, "copied again") if name in bookmarks else (Sign.MAKE, "copied")
        yield PlannedStep(sign, "table", str(name), f"{how}, about {rows:,} rows{later}")
    for name in find_unlisted(pipeline, {*checks.names, *checks.skipped}):
        yield PlannedStep(Sign.LEAVE, "table", str(name), "not followed any more; followers keep its rows")
    for view in find_unfilled_views(pipeline):
        yield PlannedStep(Sign.MAKE, "view", str(view), "filled")
    for follower_name, follower in pipeline.fed.items():
        if lacking := _list_lacking(pipeline, follower_name, follower, checks, to_copy):
            yield PlannedStep(Sign.MAKE, "follower", follower_name, f"filled with {', '.join(map(str, lacking))}")


def _list_lacking(
    pipeline: Pipeline, name: str, follower: FedFollower, checks: BootstrapChecks, to_copy: list[TableName]
) -> list[TableName]:
    """The tables and views that the follower is filled with: new ones of a lake with cuts come by its stream."""
    if pipeline.lake_follower.position() is None:
        tables = [table.name for table in checks.tables if pipeline.settings.holds_table(name, table)]
        lacking = [table for table in tables if table in to_copy]
    else:
        lacking = find_missing_tables(follower, pipeline.open_feed(name))
    views = [view for view in find_unfilled_views(pipeline) if pipeline.settings.holds(name, view)]
    return list(dict.fromkeys([*lacking, *views]))
