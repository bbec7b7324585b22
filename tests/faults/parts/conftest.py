"""Tests that disturb what others would share: they take parts away, or change what holds for all of a server."""

from collections.abc import Iterator

import pytest

from cdc.local.state_dir import Home
from tests.support.parts.removal import Remove, remove_traces
from tests.support.parts.servers_fixture import Servers, of_home, remove


@pytest.fixture(scope="session")
def servers(own_servers: Servers) -> Servers:
    """Parts of this room's own. Its tests run in one process, one after another (`tests/support/scheduling.py`)."""
    return own_servers


@pytest.fixture(scope="session")
def removal() -> Remove:
    """Takes away at once: the next test may stop the parts."""
    return remove_traces


@pytest.fixture(scope="session")
def local_servers(own_servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """All parts as local processes: those of this room, unless they are containers."""
    if own_servers.home:
        yield own_servers
        return
    home = Home(tmp_path_factory.mktemp("all") / ".cdc")
    yield of_home(home)
    remove(home)
