"""The slot as somebody sees it who wants to know what bites next: how much it keeps, of how much, and for whom."""

from dataclasses import dataclass, replace
from typing import Final

from psycopg import Connection
from psycopg.errors import InsufficientPrivilege

from cdc.connect.settings import SourceSettings
from cdc.connect.source.queries import read_sql
from cdc.connect.source.slot import SlotState, read_state
from cdc.connect.source.standby import open_decoding
from cdc.core.position import Lsn, parse_lsn

# what a slot that rests keeps grows as fast as WAL is written; two looks a moment apart would tell of that moment alone
_WAL_RATE: Final = """
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), redo_lsn)
       / greatest(extract(epoch FROM clock_timestamp() - checkpoint_time), 1)
  FROM pg_control_checkpoint()"""


@dataclass(frozen=True, slots=True)
class OldestTransaction:
    """The oldest open transaction that has written: the slot cannot begin anew behind it. `user`: None if not shown."""

    pid: int
    user: str | None
    since: float | None


@dataclass(frozen=True, slots=True)
class SourceLook:
    """One look at the source. Times are seconds since 1970 by its clock.

    `slot`: None if it does not exist. `limit_bytes`: of `max_slot_wal_keep_size`, None without a limit; `safe_bytes`:
    what may still be written before the slot is lost. `xmin_age`: in transactions.
    """

    now: float
    lsn: Lsn
    version: str
    slot: SlotState | None
    limit_bytes: int | None = None
    safe_bytes: int | None = None
    inactive_since: float | None = None
    xmin_age: int | None = None
    spilled_bytes: int | None = None
    oldest: OldestTransaction | None = None


def read_wal_rate(connection: Connection) -> float | None:
    """Bytes of WAL a second since the last checkpoint began; None where the role may not know."""
    try:
        row = connection.execute(_WAL_RATE).fetchone()
    except InsufficientPrivilege:
        return None
    return None if row is None or row[0] is None else float(row[0])


def look_at_source(connection: Connection, source: SourceSettings) -> SourceLook:
    """Read the source's clock and end, and what is kept for the slot where that lives, without waiting for a lock."""
    own = _look(connection, source.slot)
    if source.standby_host is None:
        return own
    with open_decoding(connection, source) as standby:
        there = _look(standby, source.slot)
    # what writes is on the primary, and so are the clock and the end that everything is compared with
    return replace(there, now=own.now, lsn=own.lsn, oldest=own.oldest)


def _look(connection: Connection, slot: str) -> SourceLook:
    state = read_state(connection, slot)
    row = connection.execute(read_sql("slot_health"), {"slot": slot}).fetchone()
    assert row is not None
    oldest = OldestTransaction(row[8], row[9], row[10]) if row[8] is not None else None
    safe = None if row[4] is None else int(row[4])
    spilled = None if row[7] is None else int(row[7])
    return SourceLook(row[0], parse_lsn(row[1]), row[2], state, row[3], safe, row[5], row[6], spilled, oldest)
