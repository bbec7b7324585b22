"""What keeps a capture on a standby from going on is asked in one session there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from pydantic import SecretStr

from cdc.connect.settings import SourceSettings
from cdc.connect.source import obstacles, publication
from cdc.connect.source.slots import slot
from cdc.core.errors import CdcError, PreconditionError

HALT = PreconditionError("it has paused its replay", "resume it")
NOBODY = cast("Any", None)


@pytest.mark.parametrize(("standby", "found"), [(None, None), ("pg2", HALT)], ids=["on the source", "on a standby"])
def test_one_session_tells_all(standby: str | None, found: CdcError | None, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = list[object]()

    @contextmanager
    def open_decoding(connection: object, _: SourceSettings) -> Iterator[object]:
        sessions.append(connection)
        yield connection

    monkeypatch.setattr(obstacles, "open_decoding", open_decoding)
    monkeypatch.setattr(obstacles, "find_halt", lambda *_: HALT)
    monkeypatch.setattr(publication, "read_publication", lambda *_: ())
    monkeypatch.setattr(publication, "check_whole", lambda *_: None)
    monkeypatch.setattr(slot, "read_state", lambda *_: None)
    monkeypatch.setattr(slot, "check_exists", lambda *_: None)
    source = SourceSettings(
        host="pg1", user="x", dbname="d", password=SecretStr("y"), tables=["a.b"], standby_host=standby
    )
    assert obstacles.find_obstacle(NOBODY, source) is found
    assert len(sessions) == 1
