"""LSNs that a slot may stand at, by what heartbeats say of upgrades."""

import json
from types import SimpleNamespace
from typing import cast

import pytest

from cdc.connect.source.heartbeat import UPGRADED
from cdc.core.position import LogStart, parse_lsn
from cdc.log.clients.reader import Reader
from cdc.log.settings import LogSettings
from cdc.run.health import confirmed
from cdc.run.health.confirmed import ConfirmedLsns


def test_only_the_whole_lsn_of_an_upgrade_is_where_a_slot_began(monkeypatch: pytest.MonkeyPatch) -> None:
    beats = [json.dumps({"mark": mark, "slot": lsn}) for mark, lsn in ((UPGRADED, "10/1A2B"), ("start", "0/77"))]
    records = [SimpleNamespace(value=json.dumps({"beat": beat}).encode()) for beat in beats]
    reader = cast(Reader, SimpleNamespace(read=lambda *_: records))
    monkeypatch.setattr(confirmed, "read_span", lambda *_: (0, len(records)))
    known = ConfirmedLsns(cast(LogSettings, None), cast(LogStart, None), "beats")
    found = {lsn: known._began_at(reader, parse_lsn(lsn)) for lsn in ("10/1A2B", "10/1A2", "0/1A2B", "0/77")}
    assert found == {"10/1A2B": True, "10/1A2": False, "0/1A2B": False, "0/77": False}
