"""A source of two servers, of which one takes the other's place."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.torture.proxy import Proxy, open_proxy
from tests.support.parts.servers_fixture import Servers
from tests.support.parts.standby import PrimaryAndStandby


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[PrimaryAndStandby]:
    made = PrimaryAndStandby(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def proxy(pair: PrimaryAndStandby) -> Iterator[Proxy]:
    """Where clients find the primary, whichever server that is."""
    with open_proxy(pair.primary.postgres_port) as proxy:
        yield proxy


@pytest.fixture
def primary(servers: Servers, pair: PrimaryAndStandby, proxy: Proxy) -> Servers:
    """All parts, with the primary as the source, behind the proxy."""
    return servers.with_source(proxy.port, pair.primary.postgres_password.read())
