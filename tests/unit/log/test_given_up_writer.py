"""A writer that was given up ends at once, also while its error is kept."""

import socket

import pytest

from cdc.core.errors import UnreachableError
from cdc.log.clients import transactional_writer
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.settings import LogSettings


def test_a_writer_that_cannot_be_opened_hangs_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would fence the next one when the broker answers again."""
    monkeypatch.setattr(transactional_writer, "INIT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        log = LogSettings(bootstrap=f"127.0.0.1:{silent.getsockname()[1]}", prefix="p")
        # what follows a follower notes its error, whose traceback leads to the writer
        with pytest.raises(UnreachableError) as noted:
            TransactionalWriter(log, "p")
        called, _ = silent.accept()
        with called:
            # a producer that lives on hangs up, too, but after 10 s, to call again
            called.settimeout(5)
            while called.recv(4096):
                pass
        assert noted.value.__traceback__
