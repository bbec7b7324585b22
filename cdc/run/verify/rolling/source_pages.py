"""Reads a table of the source in short transactions, each of some pages: none holds VACUUM back for long.

A row that does not change stays where it is, so it is read once. One that changes meanwhile may be read twice or not at
all: it is among the changes of that time, which are left out of the comparison.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from psycopg import Connection

from cdc.connect.source.access import connection as source
from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.table import Table
from cdc.core.text.plural import format_count
from cdc.core.waiting import wait_until
from cdc.postgres.values import read_value
from cdc.run.pipeline import Pipeline
from cdc.run.verify.rolling.duty_cycle import DutyCycle
from cdc.snapshots.copy import CopyTask, SnapshotSource
from cdc.snapshots.ranges import PageRange, page_ranges
from cdc.snapshots.shared_snapshot import Files, files, hold_snapshot

PAGES: Final = 2048
"""Pages of one transaction: 16 MiB, which take about a second."""
SETTLE_SECONDS: Final = 60.0
"""How long to wait for open transactions."""
_SHOWN: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint > %s"


def read_pages(pipeline: Pipeline, table: Table, pace: DutyCycle) -> Iterator[pa.Table]:
    """The rows of a table, in parts of its Arrow schema; rests after each transaction.

    Raises TableRewrittenError when the table gets other files meanwhile, PreconditionError when somebody locks it.
    """
    src = pipeline.settings.source
    with source.open_connection(src, autocommit=False) as keeping:
        before = files(keeping, [table.name])
        keeping.rollback()
        conninfo = source.conninfo(src, keeping.info.server_version)
        for share in _list_shares(keeping, table, before[table.name]):
            with hold_snapshot(keeping, None, [table.name], before, _give_up) as keeper:
                yield from _read(SnapshotSource(conninfo, keeper.snapshot, src.mask_key), table, share)
            pace.rest()


def await_shown(connection: Connection, pace: DutyCycle) -> None:
    """Wait until everything committed before is shown by the source.

    A walsender sends a commit before the source shows it: a moment, or with synchronous replication as long as its
    standby is behind. Raises PreconditionError when older transactions are still open after SETTLE_SECONDS.
    """
    last = int(read_value(connection, "SELECT pg_current_xact_id()::text"))

    def is_shown() -> bool:
        pace.check()
        return bool(connection.execute(_SHOWN, (last,)).fetchone() == (True,))

    if not wait_until(is_shown, SETTLE_SECONDS):
        raise PreconditionError(
            f"transactions of the source are open for more than {format_count(int(SETTLE_SECONDS), 'second')}: what"
            " they have changed may be in the log before the source shows it",
            "end them; it is tried again",
        )
    pace.begin()


def _list_shares(connection: Connection, table: Table, before: Files) -> list[tuple[PageRange, ...]]:
    with hold_snapshot(connection, None, [table.name], {table.name: before}, _give_up) as keeper:
        pages = keeper.pages[table.name]
    return page_ranges(pages, max(sum(pages.values()) // PAGES, 1))


def _read(snapshot: SnapshotSource, table: Table, share: tuple[PageRange, ...]) -> Iterator[pa.Table]:
    for batch in CopyTask(snapshot, table, share).batches():
        yield pa.Table.from_batches([batch])


def _give_up(locked: UnreachableError) -> None:
    """Raise what concerns this table alone; its turn comes again."""
    raise PreconditionError(locked.what, locked.remedy)
