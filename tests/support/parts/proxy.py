"""A name that moves from one server to another: a port here, forwarded to whoever is the primary now."""

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Pair = tuple[socket.socket, socket.socket]


class Proxy:
    """Forwards what connects to `port` to `target`, a port of this machine; None refuses everybody."""

    def __init__(self, target: int | None = None) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._target = target
        self.delay = 0.0
        """Seconds that each piece takes on its way."""
        self._open: set[Pair] = set()
        self._lock = threading.Lock()

    @property
    def target(self) -> int | None:
        return self._target

    def point_at(self, target: int | None) -> None:
        """Cut all connections; new ones go to `target`."""
        with self._lock:
            self._target = target
            for pair in self._open:
                for end in pair:
                    # not closed: its thread still reads from it, and closes both
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

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

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if self._target is None:
                return
            with socket.create_connection(("127.0.0.1", self._target)) as server:
                with self._lock:
                    self._open.add((client, server))
                try:
                    forward(client, server, lambda: self.delay)
                finally:
                    with self._lock:
                        self._open.discard((client, server))


def forward(one: socket.socket, other: socket.socket, delay: Callable[[], float] = lambda: 0.0) -> None:
    """Hand bytes over in both directions until one end has no more. `delay`: how long each piece takes, in seconds."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(one, selectors.EVENT_READ, other)
        waiting.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in waiting.select():
                assert isinstance(key.fileobj, socket.socket)
                if not (read := key.fileobj.recv(1 << 16)):
                    return
                if seconds := delay():
                    time.sleep(seconds)
                key.data.sendall(read)


@contextmanager
def open_proxy(target: int | None = None) -> Iterator[Proxy]:
    """A proxy whose port answers as long as the context lasts."""
    proxy = Proxy(target)
    accepting = threading.Thread(target=proxy.run, daemon=True)
    accepting.start()
    try:
        yield proxy
    finally:
        proxy.close()
        accepting.join()
