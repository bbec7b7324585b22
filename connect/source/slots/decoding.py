"""Asks Postgres itself whether it can decode on from where a slot stands: the error that a walsender would meet."""

import time
from typing import Final

import psycopg
from psycopg import Connection, sql

from cdc.connect.source.slots.slot import SlotState
from cdc.core.errors import RECAPTURE, HistoryLostError, PreconditionError, UnreachableError
from cdc.core.position import Lsn
from cdc.core.text.error_text import pick_first_line
from cdc.core.waiting import Deadline
from cdc.postgres.errors import OBJECT_IN_USE, UNDEFINED_OBJECT, to_cdc_error

PATIENCE: Final = "2s"
"""How long to decode. Where decoding fails for good, it fails near the slot's place: the connector was there."""
BUSY_TRIES, BUSY_PAUSE_SECONDS = 4, 0.5
"""A connector that fails at once, and starts again, has the slot for a moment each time."""
PAUSE_SECONDS: Final = 60.0
"""How long a slot is not asked again that was decoded all that time: it keeps much, and that costs the source."""
_LOST: Final = (UNDEFINED_OBJECT, "58P01")
"""undefined_object: decoding looks things up in the catalog as it was when a change was written, and a publication that
was made again later is not there. undefined_file: a file of the WAL is gone."""
_NOT_KNOWN: Final = (OBJECT_IN_USE, "42501")
"""object_in_use: somebody reads it, so it is decoded. insufficient_privilege."""
# the same plugin and publication as Debezium's; nothing is consumed
_PEEK: Final = (
    "SELECT count(*) FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL,"
    " 'proto_version', '1', 'publication_names', %s)"
)
_rests = dict[tuple[str, Lsn | None], Deadline]()
"""Name and place of a slot → until when it is not asked again."""


def check_decodable(connection: Connection, slot: SlotState, publication: str) -> None:
    """Raise HistoryLostError when Postgres cannot decode what the slot keeps, PreconditionError for another refusal.

    Asks only while nobody reads the slot. `connection` is in autocommit.
    """
    place = slot.name, slot.confirmed_lsn
    if slot.active or _is_resting(place):
        return
    error = _peek(connection, slot, publication)
    if error is None or error.sqlstate in _NOT_KNOWN:
        return
    what = f"slot {slot.name} cannot be decoded on: {pick_first_line(error)}"
    if isinstance(to_cdc_error(what, error.sqlstate, error), UnreachableError):
        # our patience has ended (query_canceled), or the server has less than it needs: it may do so later
        _rests[place] = Deadline(PAUSE_SECONDS)
        return
    if error.sqlstate in _LOST:
        raise HistoryLostError(f"{what}, at that place in the WAL", RECAPTURE) from error
    raise PreconditionError(
        what, f"mend that, then run `cdc bootstrap`; what cannot be mended is lost: {RECAPTURE}"
    ) from error


def _peek(connection: Connection, slot: SlotState, publication: str) -> psycopg.Error | None:
    """Decode what the slot keeps, and consume nothing; returns the error of the server that ends it."""
    named, found = sql.Identifier(publication).as_string(connection), None
    for _ in range(BUSY_TRIES):
        try:
            with connection.transaction():
                connection.execute(sql.SQL("SET LOCAL statement_timeout = {}").format(sql.Literal(PATIENCE)))
                connection.execute(_PEEK, (slot.name, named))
                return None
        except psycopg.Error as error:
            if connection.closed or connection.broken:
                raise
            found = error
        if found.sqlstate != OBJECT_IN_USE:
            break
        time.sleep(BUSY_PAUSE_SECONDS)
    return found


def _is_resting(place: tuple[str, Lsn | None]) -> bool:
    return place in _rests and not _rests[place].is_past
