"""Tests that disturb what others would share: they take parts away, or change what holds for all of a server."""

import pytest

from tests.support.servers_fixture import Servers


@pytest.fixture(scope="session")
def servers(own_servers: Servers) -> Servers:
    """Parts of this room's own. Its tests run in one process, one after another (`tests/support/scheduling.py`)."""
    return own_servers
