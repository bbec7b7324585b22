"""What in the source keeps a capture from going on: asked of the slot and the publication, the same for every verb."""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Connection

from cdc.connect.settings import SourceSettings
from cdc.connect.source import publication
from cdc.connect.source.slots import decoding, slot
from cdc.connect.source.slots.standby import find_halt, open_decoding
from cdc.core.errors import RECAPTURE, CdcError, HistoryLostError


def check_not_lost(connection: Connection, source: SourceSettings) -> None:
    """Raise HistoryLostError when slot or publication have lost changes, PreconditionError if none can be decoded."""
    with _open_unlost(connection, source):
        pass


@contextmanager
def _open_unlost(connection: Connection, source: SourceSettings) -> Iterator[Connection]:
    """A session where the slot lives, once it is known that nothing is lost. Raises like `check_not_lost`."""
    # outside of the other session, which would take an error of this one for its own
    published = publication.read_publication(connection, source.publication)
    with open_decoding(connection, source) as where:
        found = slot.read_state(where, source.slot)
        slot.check_exists(found, source.slot)
        if published is None:
            raise HistoryLostError(
                f"publication {source.publication} is gone: what was written without it cannot be decoded", RECAPTURE
            )
        if found is not None:
            decoding.check_decodable(where, found, source.publication)
        yield where


def find_obstacle(connection: Connection, source: SourceSettings) -> CdcError | None:
    """What keeps the capture from going on, with what helps; None if the source has nothing against it."""
    try:
        with _open_unlost(connection, source) as where:
            halt = find_halt(connection, where, source) if source.standby_host is not None else None
        publication.check_whole(connection, source)
    except CdcError as obstacle:
        return obstacle
    return halt
