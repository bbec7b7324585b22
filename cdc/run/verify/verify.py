"""`cdc verify`: compares every row of every follower with the source, both at one LSN.

Measured, never inferred (*Designing Data-Intensive Applications*, chapter 12, "Trust, but Verify"). Digests come first:
tables with equal digests are equal. Only the others are compared row by row.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from psycopg import Connection

from cdc.columns.rows.row_prints import StoredRows, store
from cdc.config.settings import VIEWS
from cdc.connect.source.access import connection as source
from cdc.connect.source.catalog import ExaminedTables
from cdc.core.errors import CdcError, ConfigurationError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.tables import problems
from cdc.run.tables.preflight import examine_tables, merge_refusals
from cdc.run.tables.resume_check import require_position
from cdc.run.tables.schema_check import find_different
from cdc.run.tables.selection import list_followed, list_held_by
from cdc.run.trouble_log import trouble_log
from cdc.run.verify.capture_check import CaptureCheck
from cdc.run.verify.catch_up import check_followed, wait_for_lsn, wait_for_tables
from cdc.run.verify.history_comparison import compare_histories
from cdc.run.verify.kept_results import keep_results
from cdc.run.verify.pinned_source import FollowerReader, PinnedSource, pin_source
from cdc.run.verify.report import Report
from cdc.run.verify.rolling.table_comparison import settle_moved
from cdc.run.verify.view_comparison import ViewComparison
from cdc.sinks.lake.feed.digest import compute_digest
from cdc.sinks.lake.feed.feed import LakeFeed

Followers = Mapping[str, FollowerReader]


def verify(
    pipeline: Pipeline,
    names: Sequence[str],
    patience: float | None,
    max_keys: int,
    only: Collection[TableName] = (),
) -> Report:
    """Compare these followers with the source, as `compare_all` does, and keep the result for `cdc status`."""
    began = time.monotonic()
    report = compare_all(pipeline, names, patience, max_keys, only)
    # of some tables only, it says nothing of a follower
    if not only:
        keep_results(pipeline, report, time.monotonic() - began)
    return report


def compare_all(
    pipeline: Pipeline,
    names: Sequence[str],
    patience: float | None,
    max_keys: int,
    only: Collection[TableName] = (),
) -> Report:
    """Compare these followers with a snapshot of the source, once they have everything up to its LSN.

    `only`: compare these tables, if there are any. The report names at most `max_keys` differing keys per table. A
    table that a follower changed above the LSN in the meantime is compared key by key, without what changes meanwhile.
    Spark starts after all checks, and only for views, histories, and tables that are large together.

    Raises PreconditionError when a follower does not reach the LSN within `patience` seconds. Without `patience`, as
    soon as it is known that nobody follows it, or that the capture does not run.
    """
    with_views, names = VIEWS in names, [name for name in names if name != VIEWS]
    require_position(pipeline.lake_follower)
    with pipeline.open_source() as connection:
        now = examine_tables(connection, pipeline, _select_tables(pipeline, names, only))
        # the snapshot will be at the source's end of now: followers only reach that if the capture runs
        check = CaptureCheck(pipeline, connection)
        check.check_connector()
        if patience is None:
            positions = {name: reader.position for name, reader in open_readers(pipeline, names).items()}
            check_followed(pipeline, positions, source.current_lsn(connection))
        with trouble_log(pipeline.state):
            report = _compare_at_lsn(
                pipeline, connection, names, now, AskedComparison(patience, max_keys, only, check, with_views)
            )
            # behind the snapshot: a slot is not held for longer than it has to be
            readers = open_readers(pipeline, names)
            return settle_moved(pipeline, connection, report, now.fit, readers, max_keys)


@dataclass(frozen=True, slots=True)
class AskedComparison:
    """How a comparison was asked for."""

    patience: float | None
    max_keys: int
    only: Collection[TableName]
    check: CaptureCheck
    with_views: bool


def _compare_at_lsn(
    pipeline: Pipeline, connection: Connection, names: Sequence[str], now: ExaminedTables, asked: AskedComparison
) -> Report:
    """Compare tables, histories and views with a snapshot of the source."""
    patience, max_keys = asked.patience, asked.max_keys
    log_start = require_position(pipeline.lake_follower).log_start
    has_histories = pipeline.lake_name in names and bool(pipeline.settings.histories)
    if asked.with_views or has_histories or any(map(pipeline.settings.holds_views, names)):
        pipeline.start_spark()
    compared = [table.name for table in now.fit]
    with pin_source(pipeline, connection, compared, log_start, max_keys, may_do_without_spark=True) as pinned:
        # opened behind Spark, if it has started
        followers = open_readers(pipeline, names)
        report = _compare_followers(pipeline, followers, now, pinned, patience, asked.check)
        if has_histories:
            report = report.with_further({pipeline.lake_name: compare_histories(pipeline, max_keys, asked.only)})
        held = {name: followers[name] for name in names if pipeline.settings.holds_views(name)}
        if not asked.with_views and not held:
            return report
        wait_for_lsn(pipeline, VIEWS, pipeline.views.position, pinned.lsn, patience, asked.check)
        verdicts = ViewComparison(pipeline, max_keys).compare(held, asked.only, with_views=asked.with_views)
        return report.with_further(verdicts)


def _compare_followers(
    pipeline: Pipeline,
    followers: Followers,
    now: ExaminedTables,
    pinned: PinnedSource,
    patience: float | None,
    check: CaptureCheck,
) -> Report:
    """Wait until the followers have everything up to the LSN, then compare their tables."""
    reached = {
        name: wait_for_lsn(pipeline, name, reader.position, pinned.lsn, patience, check)
        for name, reader in followers.items()
    }
    asked = now.shapes.keys() | now.refusals.keys()
    # only now: on the way to the LSN they may have changed a table's schema, or stopped the table
    stops = wait_for_tables(pipeline, {name: reader.position for name, reader in followers.items()}, patience, asked)
    pipeline.look_again()
    stopped = {stop.name: problems.describe_stop(stop, now) for stop in stops if stop.name in asked}
    pinned.incomparable.update(find_incomparable(pipeline, now, stopped))
    followed = [table for table in now.fit if table.name not in stopped]
    own = {name: select_own(pipeline, name, reader, followed) for name, reader in followers.items()}
    # all at once, while the source is read: each waits for a server of its own
    with ThreadPoolExecutor(max(len(followers), 1)) as threads:
        found = threads.map(lambda name: pinned.verdicts(followers[name], reached[name], own[name]), followers)
        verdicts = dict(zip(followers, found, strict=True))
    return Report(pinned.lsn, verdicts, stopped, pinned.incomparable)


def select_own(pipeline: Pipeline, name: str, follower: FollowerReader, tables: Sequence[Table]) -> list[Table]:
    """The tables of these that the follower holds, including stopped ones that it can no longer hold."""
    stopped = follower.stops()
    return [
        table
        for table in tables
        if pipeline.settings.holds_table(name, table)
        or (pipeline.settings.holds(name, table.name) and table.name in stopped)
    ]


def _select_tables(pipeline: Pipeline, names: Sequence[str], only: Collection[TableName]) -> Sequence[TableName]:
    """The tables to compare. Raises ConfigurationError for one in `only` that none of these followers has."""
    followed, held = list_followed(pipeline), list_held_by(pipeline, names)
    for table in only:
        if (table not in followed or table not in held) and not pipeline.settings.is_view(table):
            raise ConfigurationError(f"{table} is followed by none of {', '.join(names)}", "correct --table")
    return [table for table in followed if not only or table in only]


def find_incomparable(
    pipeline: Pipeline, now: ExaminedTables, stopped: Collection[TableName]
) -> dict[TableName, CdcError]:
    """The tables that are not stopped, and have no copy or another schema in the source than in the lake."""
    refused = {name: merge_refusals(refusals) for name, refusals in now.refusals.items()}
    copied = pipeline.lake_follower.bookmarks()
    uncopied = {
        table.name: problems.describe_missing_copy(table.name, "run `cdc bootstrap`")
        for table in now.fit
        if table.name not in copied
    }
    incomparable = {**find_different(pipeline, now.tables), **uncopied, **refused}
    return {name: error for name, error in incomparable.items() if name not in stopped}


def open_readers(pipeline: Pipeline, names: Collection[str]) -> dict[str, FollowerReader]:
    """Readers of these followers, by name; until Spark has started, only their positions can be read."""
    lake = pipeline.lake_follower
    feed = pipeline.open_whole_feed()
    digest = partial(compute_digest, pipeline.lake, feed)
    lake_reader = FollowerReader(lake.position, feed.rows, digest, stored=partial(_store_lake, feed))
    fed = pipeline.fed.items()
    readers = {name: FollowerReader(f.position, f.rows, f.digest, f.stops, f.held, stored=f.stored) for name, f in fed}
    return {name: reader for name, reader in {pipeline.lake_name: lake_reader, **readers}.items() if name in names}


def _store_lake(feed: LakeFeed, table: Table) -> Iterator[StoredRows]:
    """The lake's rows as they stand at its newest cut."""
    return store(feed.read(table, feed.stand(table.name)), table, None)
