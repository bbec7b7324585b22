"""A way to a server that can be pointed elsewhere, cut, slowed down, or made to say nothing."""

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

LOOPBACK: Final = "127.0.0.1"
PIECE: Final = 1 << 16
Pair = tuple[socket.socket, socket.socket]


class Proxy:
    """Forwards what connects to `port`, of this machine, to the port `target` of `host`; None refuses everybody."""

    def __init__(self, target: int | None = None, host: str = LOOPBACK) -> None:
        self._listening = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listening.getsockname()[1]
        self._host, self._target = host, target
        self._open: set[Pair] = set()
        self._lock = threading.Lock()
        self._flows = threading.Event()
        self._flows.set()
        self._delay = 0.0

    def point_at(self, target: int | None) -> None:
        """Cut all connections; new ones go to `target`."""
        with self._lock:
            self._target = target
            for pair in self._open:
                for end in pair:
                    # not closed: its thread still reads from it, and closes both
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Refuse everybody meanwhile, whoever is connected included."""
        target = self._target
        self.point_at(None)
        try:
            yield
        finally:
            self.point_at(target)

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Take what comes meanwhile, and hand nothing over: as a firewall that drops packets."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    @contextmanager
    def slowed(self, seconds: float) -> Iterator[None]:
        """Hand each piece over so much later meanwhile."""
        self._delay = seconds
        try:
            yield
        finally:
            self._delay = 0.0

    def run(self) -> None:
        """Accept until the port is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Take no further connections, and cut those that are open."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.point_at(None)
        self._flows.set()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if (target := self._target) is None:
                return
            with socket.create_connection((self._host, target)) as server:
                with self._lock:
                    # cut while it connected: nobody would end this one
                    if self._target != target:
                        return
                    self._open.add((client, server))
                try:
                    self._forward(client, server)
                finally:
                    with self._lock:
                        self._open.discard((client, server))

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        """Hand bytes over in both directions until one end has no more."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(one, selectors.EVENT_READ, other)
            waiting.register(other, selectors.EVENT_READ, one)
            while True:
                for key, _ in waiting.select():
                    if not isinstance(key.fileobj, socket.socket):
                        raise TypeError(key.fileobj)
                    if not (read := key.fileobj.recv(PIECE)):
                        return
                    self._flows.wait()
                    time.sleep(self._delay)
                    key.data.sendall(read)


@contextmanager
def open_proxy(target: int | None = None, host: str = LOOPBACK) -> Iterator[Proxy]:
    """A proxy whose port answers as long as the context lasts."""
    proxy = Proxy(target, host)
    accepting = threading.Thread(target=proxy.run, daemon=True)
    accepting.start()
    try:
        yield proxy
    finally:
        proxy.close()
        accepting.join()
