"""The heartbeat: one row of the source for each pipeline, whose versions form a chain.

Every beat names the digest of the beat before it and the place of the slot at that moment. A reader of the log who
follows the chain knows that no commit before a beat is missing. Commits go missing when somebody moves the slot by
hand, restores the source from a backup or takes changes out of the publication, and when the log loses its end
(*Designing Data-Intensive Applications*, "Trust, but Verify").
"""

import hashlib
from typing import Final

import msgspec
from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source.slots.slot import read_slot
from cdc.connect.source.sql.queries import read_sql
from cdc.core.fail_points import reach
from cdc.core.position import Lsn, format_lsn, parse_lsn
from cdc.core.table import Column, Kind, Table, TableName

HEARTBEAT: Final = "heartbeat"
START: Final = "the capture starts"
"""The mark of the beat that Debezium writes in each new session."""
UPGRADED: Final = "the source was upgraded"
"""The mark of the beat that begins a cluster which pg_upgrade has made: its slot begins where no commit is."""

NO_LSN: Final = sql.SQL("NULL::text")
# `sha256`, not `md5`: a server in FIPS mode refuses that
_PREVIOUS: Final = "encode(sha256(convert_to(last.beat, 'UTF8')), 'hex')"


class Beat(msgspec.Struct, frozen=True):
    """One version of the row, as JSON.

    `at`: the source's clock. `mark`: set by the toolkit or START. `slot`: the slot's confirmed LSN, as `16/B374D848`;
    only in beats of the connector. `previous`: the digest of the previous version, None in the first.
    """

    at: str = ""
    mark: str | None = None
    slot: str | None = None
    previous: str | None = None

    @property
    def slot_lsn(self) -> Lsn | None:
        return parse_lsn(self.slot) if self.slot else None


def heartbeat_table(source: SourceSettings) -> Table:
    """The heartbeat table as captured: pipeline (text, key), beat (text)."""
    columns = (Column("pipeline", Kind.TEXT), Column("beat", Kind.TEXT))
    return Table(TableName(source.heartbeat_schema, HEARTBEAT), columns, ("pipeline",))


def read_beat(text: str) -> Beat | None:
    """Parse a beat; None for one of older versions, which have no chain."""
    try:
        return msgspec.json.decode(text, type=Beat)
    except msgspec.MsgspecError:
        return None


def digest_of(text: str) -> str:
    """Compute the digest by which the next beat names this one (SHA-256, hex)."""
    # the source computes the same (`_PREVIOUS`)
    return hashlib.sha256(text.encode()).hexdigest()


def write_heartbeat(
    connection: Connection, source: SourceSettings, pipeline: str, mark: str, patience: str | None = None
) -> None:
    """Write a beat with `mark`: when the log has it, the log has everything committed before it.

    `patience`: how long it waits for who has locked the row, or the table; raises LockNotAvailable then. `connection`
    is in autocommit.
    """
    _write(connection, heartbeat_query(source, pipeline, mark), patience)
    reach("heartbeat.written")


def _write(connection: Connection, query: sql.Composed, patience: str | None) -> None:
    if patience is None:
        connection.execute(query)
        return
    # of this beat alone: the session's other statements wait for locks as they did
    with connection.transaction():
        connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(patience)))
        connection.execute(query)


def write_beat_for(
    connection: Connection, source: SourceSettings, pipeline: str, patience: str | None = None, *, has_lsns: bool
) -> None:
    """Write the beat that a connector on a standby cannot write; `has_lsns`: with the slot's LSN, like its own.
    `patience` and `connection` are as of `write_heartbeat`.

    While nobody reads the slot, its LSN is where the capture starts again.
    """
    state = read_slot(connection, source) if has_lsns else None
    lsn = format_lsn(state.confirmed_lsn) if state and state.confirmed_lsn is not None else None
    mark = START if state and not state.active else None
    query = heartbeat_query(source, pipeline, mark, slot=sql.SQL("{}::text").format(sql.Literal(lsn)))
    _write(connection, query, patience)


def slot_lsn(slot: str) -> sql.Composed:
    """Make the expression for the confirmed LSN of a slot of the same server."""
    return sql.SQL("(SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = {})").format(
        sql.Literal(slot)
    )


def heartbeat_query(
    source: SourceSettings, pipeline: str, mark: str | None = None, *, slot: sql.Composable = NO_LSN
) -> sql.Composed:
    """Make the statement that writes a beat, with the confirmed LSN of the slot if one is given.

    The connector runs it regularly, so that a slot of idle tables moves (Debezium, "WAL disk space consumption"), and
    in every new session, so that the log has the slot's LSN when the capture started.
    """

    def beat(previous: sql.SQL) -> sql.Composed:
        return read_sql("beat").format(mark=sql.Literal(mark), slot=slot, previous=previous)

    return read_sql("heartbeat").format(
        table=sql.Identifier(source.heartbeat_schema, HEARTBEAT),
        pipeline=sql.Literal(pipeline),
        first=beat(sql.SQL("NULL")),
        next=beat(sql.SQL(_PREVIOUS)),
    )
