"""Ports on the loopback address: chosen free once, remembered, and explained when somebody has taken one."""

import json
import socket
import zlib
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

import psutil

from cdc.core.errors import PreconditionError
from cdc.core.waiting import Deadline, wait_until
from cdc.local.state.files import write
from cdc.local.state_dir import Home

LOOPBACK: Final = "127.0.0.1"
# Below the ephemeral range, so that no outgoing connection of anybody takes one while a part is stopped.
# The search node's runner takes ports up to 9299 only.
_BASES: Final = {
    "postgres": 15400,
    "kafka": 19000,
    "kafka.controller": 19100,
    "connect": 18000,
    "search": 9201,
    "search.transport": 19300,
}
_SPAN: Final = 98


def read_ports(home: Home) -> Mapping[str, int] | None:
    """The ports of `home` by name, None if it has never been up."""
    try:
        found = json.loads(home.ports_file.read_text(encoding="utf-8"))
        return {name: int(found[name]) for name in _BASES}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as damage:
        raise PreconditionError(f"{home.ports_file} is damaged", "remove it: new ports are chosen") from damage


def choose(home: Home, of_others: Collection[int] = ()) -> Mapping[str, int]:
    """The remembered ports of `home`, chosen now if there are none; PreconditionError if none is free.

    One `of_others`, on which nobody may be listening now, is taken only where there is no other.
    """
    found = read_ports(home)
    if found is None:
        # two homes that come up at the same moment should not look at the same ports first
        start = zlib.crc32(str(home.path).encode())
        found = {name: _free_port(name, base, start, of_others) for name, base in _BASES.items()}
        write(home.ports_file, json.dumps(found, indent=2) + "\n")
    return found


def require_free(home: Home, ports: Mapping[str, int], names: Collection[str], grace: float = 0) -> None:
    """PreconditionError naming the port, the part and if visible the process, if one of `names` is taken.

    A port may be taken for `grace` seconds: a process that was killed keeps its own until its last thread ends.
    """
    deadline = Deadline(grace)
    for name in names:
        port = ports[name]
        if not wait_until(partial(is_free, port), deadline.seconds_left, every=0.1):
            raise PreconditionError(
                f"port {port} of {name} is taken by {_holder(port)}",
                f"stop that process, or remove {home.ports_file} to have new ports chosen",
            )


def is_free(port: int) -> bool:
    """Whether a process could listen on `port` of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # without this a connection that was closed a moment ago passes for somebody who listens
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _free_port(name: str, base: int, start: int, of_others: Collection[int]) -> int:
    ports = [base + (start + step) % _SPAN for step in range(_SPAN)]
    for port in sorted(ports, key=lambda port: port in of_others):
        if is_free(port):
            return port
    raise PreconditionError(f"no port from {base} to {base + _SPAN - 1} is free for {name}", "stop what holds them")


def _holder(port: int) -> str:
    try:
        listening = [
            found.pid
            for found in psutil.net_connections("tcp")
            if found.status == psutil.CONN_LISTEN and found.laddr and found.laddr.port == port
        ]
        return next(f"{psutil.Process(pid).name()} (pid {pid})" for pid in listening if pid)
    except (psutil.Error, StopIteration):
        return "another process (which one is not visible to you)"
