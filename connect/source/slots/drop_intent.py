"""Tells the guards of other slots of this server that a slot is to be dropped as soon as that frees its WAL.

Of two slots at nearly the same place, a drop of one alone frees nothing: without this, each guard would wait for the
other one. An advisory lock says it, since every database and role sees those, a standby has them too, nothing has to be
made for it, and it ends with its session.
"""

from typing import Final

import psycopg
from psycopg import Connection

from cdc.connect.settings import SourceSettings
from cdc.connect.source.access.connection import connect, explain

LOCKS: Final = 0x636463
"""The first key of these locks, `cdc` in ASCII; the second is the slot's name, hashed."""
_LOCK: Final = "SELECT pg_try_advisory_lock_shared(%s, hashtext(%s::text))"


class DropIntent:
    """The intent to drop one pipeline's slot. It lasts until it is closed, or the process ends."""

    def __init__(self, source: SourceSettings) -> None:
        self._source = source
        self._session: Connection | None = None

    def tell(self) -> None:
        """Tell it where the slot lives; again and again does no harm. Raises CdcError."""
        session = self._session or connect(self._source.decoding)
        self._session = session
        try:
            session.execute(_LOCK, (LOCKS, self._source.slot))
        except psycopg.Error as error:
            told = explain(self._source.decoding, session, error)
            self.close()
            raise told from error

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
