"""The slot as somebody sees it who wants to know what bites next: how much it keeps, of how much, and for whom."""

from dataclasses import dataclass, replace
from typing import Final

from psycopg import Connection

from cdc.connect.settings import SourceSettings
from cdc.connect.source.slots.drop_intent import LOCKS
from cdc.connect.source.slots.oldest_transaction import OldestTransaction
from cdc.connect.source.slots.slot import SlotState, read_state
from cdc.connect.source.slots.standby import open_decoding
from cdc.connect.source.sql.queries import read_sql
from cdc.core.position import Lsn, parse_lsn
from cdc.postgres.values import read_value

# what a slot that rests keeps grows as fast as WAL is written; two looks a moment apart would tell of that moment alone
_WAL_RATE: Final = """
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), redo_lsn)
       / greatest(extract(epoch FROM clock_timestamp() - checkpoint_time), 1)
  FROM pg_control_checkpoint()"""


@dataclass(frozen=True, slots=True)
class SourceLook:
    """One look at the source. Times are seconds since 1970 by its clock.

    `slot`: None if it does not exist. `limit_bytes`: of `max_slot_wal_keep_size`, None without a limit; `safe_bytes`:
    what may still be written before the slot is lost. `xmin_age`: in transactions. `other_ahead`: by how many bytes the
    slot `other`, which keeps the most WAL of all others that stay (`drop_intent.py`), begins behind this one; negative
    where it keeps more.
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
    other_ahead: int | None = None
    other: str | None = None
    wal_rate: float | None = None
    """Bytes a second, of a slot that nobody reads: it grows as fast as WAL is written."""

    @property
    def freed_bytes(self) -> int:
        """The WAL that Postgres keeps for this slot alone: what would be removed without it."""
        kept = self.slot.retained_bytes if self.slot else 0
        return kept if self.other_ahead is None else max(min(kept, self.other_ahead), 0)


def read_wal_rate(connection: Connection) -> float | None:
    """Bytes of WAL a second since the last checkpoint began; None where the role may not know. Not of a standby."""
    # asked first: a refusal each two seconds would fill the server's log
    if not read_value(connection, "SELECT has_function_privilege('pg_control_checkpoint()', 'EXECUTE')"):
        return None
    row = connection.execute(_WAL_RATE).fetchone()
    return None if row is None or row[0] is None else float(row[0])


def look_at_source(connection: Connection, source: SourceSettings) -> SourceLook:
    """Read the source's clock and end, and what is kept for the slot where that lives, without waiting for a lock."""
    own = look = _look(connection, source.slot)
    if source.standby_host is not None:
        with open_decoding(connection, source) as standby:
            there = _look(standby, source.slot)
        # what writes is on the primary, and so are the clock and the end that everything is compared with
        look = replace(there, now=own.now, lsn=own.lsn, oldest=own.oldest)
    return replace(look, wal_rate=read_wal_rate(connection)) if look.slot and not look.slot.active else look


def _look(connection: Connection, slot: str) -> SourceLook:
    state = read_state(connection, slot)
    row = connection.execute(read_sql("slot_health"), {"slot": slot, "drops": LOCKS}).fetchone()
    assert row is not None
    oldest = OldestTransaction.of(row[10]) if row[10] is not None else None
    safe = None if row[4] is None else int(row[4])
    spilled = None if row[7] is None else int(row[7])
    return SourceLook(
        row[0], parse_lsn(row[1]), row[2], state, row[3], safe, row[5], row[6], spilled, oldest, row[8], row[9]
    )
