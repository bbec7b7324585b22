"""Lets a slot move on faster while others write much WAL that nobody captures.

The slot moves when two things have happened: Postgres has noted which transactions run, as it does each 15 seconds, and
Debezium has confirmed a commit behind that, which is a heartbeat's where captured tables rest. Both are asked for, more
often than they come by themselves, as long as the slot keeps much and that helps.
"""

import threading
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Final

from psycopg import Connection

from cdc.connect.source.heartbeat import write_heartbeat
from cdc.connect.source.slots.slot import SlotState, read_state
from cdc.connect.source.slots.standby import note_transactions, open_decoding
from cdc.core.errors import CdcError
from cdc.core.position import Lsn
from cdc.run.background import run_in_background
from cdc.run.pipeline import Pipeline

MUCH_BYTES: Final = 16 << 20
"""One segment of WAL: a slot that moves on keeps about as much."""
BEAT_SECONDS = 1.0
PATIENT_BEATS: Final = 10
"""So many in a row may not have helped yet: Debezium confirms a beat a little later. With twice the pause after each of
them, a hiccup of two seconds cost ten: 105 MiB where 10 MiB a second were written."""
LONGEST_PAUSE_SECONDS: Final = 60.0
"""Between two beats of which none helps: an open transaction, or Kafka, holds the slot."""


class SlotBeats:
    """Writes them for one process."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._last: Lsn | None = None
        self._unhelpful = 0
        self.pause = BEAT_SECONDS

    def look(self, connection: Connection, decoding: Connection) -> None:
        """Look once, and write a heartbeat if that may help.

        `connection` is to the source, in autocommit; `decoding` to where the slot lives.
        """
        found = read_state(decoding, self._pipeline.settings.source.slot)
        if found is None or not found.active or found.retained_bytes < MUCH_BYTES:
            self._last, self._unhelpful, self.pause = None, 0, BEAT_SECONDS
            return
        self._set_pause(found)
        note_transactions(connection)
        # who holds the row writes a heartbeat as well
        write_heartbeat(connection, self._pipeline.settings.source, self._pipeline.name, "the slot keeps much", "1s")

    def _set_pause(self, found: SlotState) -> None:
        is_held = self._last is not None and found.restart_lsn == self._last
        self._unhelpful = self._unhelpful + 1 if is_held else 0
        longer = 2 * self.pause if self._unhelpful > PATIENT_BEATS else BEAT_SECONDS
        self.pause, self._last = min(longer, LONGEST_PAUSE_SECONDS), found.restart_lsn


def keep_slot_moving(pipeline: Pipeline) -> AbstractContextManager[None]:
    """Let the slot move on, in a thread, as long as the context lasts."""
    return run_in_background(partial(_run, pipeline.reopened()), "slot beats", BEAT_SECONDS)


def _run(pipeline: Pipeline, ended: threading.Event) -> None:
    beats = SlotBeats(pipeline)
    while not ended.wait(beats.pause):
        # what does not answer is told by who checks the capture
        with (
            suppress(CdcError),
            pipeline.open_source() as connection,
            open_decoding(connection, pipeline.settings.source) as decoding,
        ):
            while not ended.is_set():
                beats.look(connection, decoding)
                ended.wait(beats.pause)
