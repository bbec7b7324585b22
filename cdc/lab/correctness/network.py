"""A network between a client and a server that loses what it is told to, without a word."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from socketserver import BaseRequestHandler, BaseServer, ThreadingTCPServer
from threading import Thread
from typing import Final

LOCALHOST: Final = "127.0.0.1"


class Loss(Enum):
    """What the network loses."""

    REQUEST = "request"
    ANSWER = "answer"


class LossyNetwork(ThreadingTCPServer):
    """A network between a client and a server, as a proxy. From now on it loses what `loses` says, without a word."""

    daemon_threads = True

    def __init__(self, server: tuple[str, int]) -> None:
        super().__init__((LOCALHOST, 0), _Connection)
        self.server = server
        self.port: int = self.socket.getsockname()[1]
        self.loses: Loss | None = None


class _Connection(BaseRequestHandler):
    server: LossyNetwork

    def handle(self) -> None:
        with socket.create_connection(self.server.server) as target:
            Thread(target=self._answer, args=(target,), daemon=True).start()
            self._pass_on(self.request, target, Loss.REQUEST)
            with suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)

    def _answer(self, target: socket.socket) -> None:
        # whose answer is lost does not hear either that the server has gone
        if self._pass_on(target, self.request, Loss.ANSWER):
            with suppress(OSError):
                self.request.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, source: socket.socket, target: socket.socket, loss: Loss) -> bool:
        """Pass on what comes until it ends; returns False if some of it was lost."""
        is_whole = True
        # either end may go at any time
        with suppress(OSError):
            while data := source.recv(65_536):
                if self.server.loses is loss:
                    is_whole = False
                else:
                    target.sendall(data)
        return is_whole


@contextmanager
def serve(server: BaseServer) -> Iterator[None]:
    """Let a server work."""
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
