"""Ports that nobody listens on, for servers of a test and for addresses where none answers."""

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress

OF_SERVERS = range(20_000, 32_000)
"""Below the ports that Linux and macOS give to clients."""


def free_ports(count: int) -> Sequence[int]:
    """So many ports of the loopback address, no two alike."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]


def free_port() -> int:
    return free_ports(1)[0]


def server_ports(count: int) -> Sequence[int]:
    """So many free ports for servers that listen some seconds later: no client is given one of them meanwhile."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(OF_SERVERS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found += [port] if port not in found else []
    return found
