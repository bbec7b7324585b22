"""Ports that nobody listens on, for servers of a test and for addresses where none answers."""

import socket
from collections.abc import Sequence
from contextlib import ExitStack


def free_ports(count: int) -> Sequence[int]:
    """So many ports of the loopback address, no two alike."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]


def free_port() -> int:
    return free_ports(1)[0]
