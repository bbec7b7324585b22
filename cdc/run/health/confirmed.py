"""The LSNs that Debezium has confirmed to the slot, as recorded in the log.

Debezium confirms LSNs of commits, and of messages outside of transactions (`pg_logical_emit_message`). The log has the
latter only because our transformation writes them (`connect/plugin/ConfirmedLsn.java`).
"""

import re
from contextlib import suppress

import numpy as np

from cdc.columns.netting.ends import parse_confirmed_lsn
from cdc.connect.source.heartbeat import UPGRADED
from cdc.core.errors import HistoryLostError
from cdc.core.position import LogStart, Lsn, format_lsn
from cdc.log.clients.reader import Reader, read_span
from cdc.log.names import debezium_heartbeat_topic, transaction_topic
from cdc.log.settings import LogSettings
from cdc.log.transaction_topic import has_confirmed


class ConfirmedLsns:
    """The LSNs that the capture that begins at `start` can have confirmed; for one thread at a time.

    `beats`: the topic of the source's heartbeats, some of which say where a slot began after pg_upgrade.
    """

    def __init__(self, log: LogSettings, start: LogStart, beats: str) -> None:
        self._log = log
        self._own_beats = beats
        self._start = start
        self._beats = np.empty(0, np.int64)
        self._first = self._offset = self._own_offset = 0
        self._upgrades = list[bytes]()

    def include(self, lsn: Lsn) -> bool:
        """Does the log have a commit at this LSN, or a confirmed message, or does the capture begin there?

        Also true if that cannot be known: retention has deleted that part of the log, or Connect lacks our classes.
        """
        if lsn <= self._start.lsn or self._has_beat(lsn):
            return True
        with Reader(self._log) as reader, suppress(HistoryLostError):
            found = has_confirmed(reader, transaction_topic(self._log.prefix), lsn, self._start)
            # heartbeats last: nearly every LSN is a commit's, and their topic would be read for nothing
            if found is False:
                self._read_beats(reader)
                return self._has_beat(lsn) or self._has_forgotten(lsn) or self._began_at(reader, lsn)
        return True

    def _has_beat(self, lsn: Lsn) -> bool:
        at = int(np.searchsorted(self._beats, lsn))
        return at < len(self._beats) and int(self._beats[at]) == lsn

    def _has_forgotten(self, lsn: Lsn) -> bool:
        # retention deletes old heartbeats: one of them may have confirmed an LSN below the first that is left
        return self._first > 0 and not (len(self._beats) and int(self._beats[0]) <= lsn)

    def _began_at(self, reader: Reader, lsn: Lsn) -> bool:
        """Did a slot begin there that pg_upgrade has made?"""
        first, end = read_span(reader, self._own_beats)
        # as text, since all of them are read, each once: few beats have this mark, and few LSNs come here
        sign, place = UPGRADED.encode(), re.compile(rf"\b{format_lsn(lsn)}\b".encode())
        records = reader.read(self._own_beats, 0, max(first, self._own_offset), end)
        self._upgrades += [r.value for r in records if r.value and sign in r.value]
        self._own_offset = end
        return any(place.search(value) for value in self._upgrades)

    def _read_beats(self, reader: Reader) -> None:
        topic = debezium_heartbeat_topic(self._log.prefix)
        self._first, end = read_span(reader, topic)
        records = reader.read(topic, 0, max(self._first, self._offset), end)
        found = [lsn for r in records if r.value and (lsn := parse_confirmed_lsn(r.value)) is not None]
        # sorted, since redelivered heartbeats are out of order
        self._beats = np.union1d(self._beats, np.array(found, np.int64))
        self._offset = end
