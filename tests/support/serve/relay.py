"""A way to a server that can be cut: what goes through it then finds nobody."""

import socket
import threading
from contextlib import suppress


class Relay:
    """Listens at a port of its own, and hands everything on to a server's; `kill` cuts it, `start` opens it again."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self.port = 0
        self.start()

    def start(self) -> None:
        self._ends: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def kill(self) -> None:
        # a listener that is only closed goes on in the thread that waits at it
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.create_connection(self._target)
                self._ends += near, far
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=ends, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
