"""What the standby says on which the slot lives: read once, in one session, for all checks about it and the slots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import Connection

from cdc.connect.source.access.connection import open_connection
from cdc.connect.source.slots.standby import StandbyState, find_halt, find_stranger
from cdc.core.errors import CdcError
from cdc.postgres.values import read_value
from cdc.run.doctor.facts.access import Access
from cdc.run.doctor.facts.source import OF_READERS, OF_SLOTS, Row, read_rows

_SETTINGS: Final = "SELECT jsonb_object_agg(name, setting) FROM pg_settings"
_MAY_LOG: Final = "SELECT has_function_privilege('pg_log_standby_snapshot()', 'EXECUTE')"


@dataclass(frozen=True, slots=True)
class StandbyFacts:
    """Its state, settings, slots and who reads them. `stranger`: why it is no standby of the source; `halt`: why it
    replays nothing. `may_log`: the role may let the primary write what a slot on a standby waits for."""

    state: StandbyState
    settings: Mapping[str, str]
    slots: Sequence[Row] = ()
    readers: Sequence[Row] = ()
    stranger: CdcError | None = None
    halt: CdcError | None = None
    may_log: bool = True


def read_standby(access: Access) -> StandbyFacts:
    """Ask the standby, and its primary of both. Raises CdcError where one does not answer."""
    source = access.source
    with access.open() as primary, open_connection(source.decoding) as standby:
        state = StandbyState.read(standby)
        return StandbyFacts(
            state,
            read_value(standby, _SETTINGS),
            read_rows(standby, OF_SLOTS),
            read_rows(standby, OF_READERS),
            find_stranger(StandbyState.read(primary), state, source),
            find_halt(primary, standby, source),
            _may_log(primary),
        )


def _may_log(primary: Connection[Any]) -> bool:
    # the function is of version 16, and an older primary has no such standby
    return primary.info.server_version < 160_000 or bool(read_value(primary, _MAY_LOG))
