"""A way to a server, while it is cut, silent, or slow."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from cdc.torture.proxy import Proxy, open_proxy


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says again what it hears."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(client,), daemon=True).start()

        def answer(client: socket.socket) -> None:
            with client:
                while piece := client.recv(100):
                    client.sendall(piece)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(echo: int) -> Iterator[Proxy]:
    with open_proxy(echo) as opened:
        yield opened


def ask(client: socket.socket) -> bytes:
    client.sendall(b"word")
    return client.recv(100)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def test_cut_ends_what_is_open_and_refuses_what_comes(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client) == b"word"
        with proxy.cut():
            assert client.recv(100) == b""
            with connect(proxy) as refused:
                assert refused.recv(100) == b""
    with connect(proxy) as client:
        assert ask(client) == b"word"


def test_silence_keeps_what_was_said(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client) == b"word"
        with proxy.silenced():
            client.sendall(b"more")
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(100)
            client.settimeout(10)
        assert client.recv(100) == b"more"


def test_slow_way_takes_its_time_in_both_directions(proxy: Proxy) -> None:
    with connect(proxy) as client, proxy.slowed(0.1):
        began = time.monotonic()
        assert ask(client) == b"word"
        assert time.monotonic() - began >= 0.2


def test_connection_that_was_being_made_when_all_were_cut_is_none(
    echo: int, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = socket.create_connection

    def cut_meanwhile(address: tuple[str, int]) -> socket.socket:
        made = make(address)
        assert address[1] == echo
        proxy.point_at(None)
        return made

    monkeypatch.setattr(socket, "create_connection", cut_meanwhile)
    with socket.socket() as client:
        client.settimeout(10)
        client.connect(("127.0.0.1", proxy.port))
        assert client.recv(100) == b""
