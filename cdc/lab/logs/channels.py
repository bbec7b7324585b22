"""Ways from a producer to one consumer that may be away: datagrams, webhooks with and without memory, and a log."""

import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from typing import Any, Final, Protocol

import httpx

from cdc.lab.messages import find_partitions, take
from cdc.lab.workplace import Workplace

LOCALHOST: Final = "127.0.0.1"
Receive = Callable[[str], None]
"""What the consumer does with an event."""


class Channel(Protocol):
    """A way from a producer to a consumer."""

    def send(self, event: str) -> bool:
        """Send as the producer; returns False if the producer learns that nobody has it."""
        ...

    def come(self, receive: Receive) -> None:
        """Be there as the consumer, at the address that it had before."""
        ...

    def leave(self) -> None:
        """Be away as the consumer: its process is gone."""
        ...


class Datagrams:
    """UDP: the producer throws, and hears nothing."""

    def __init__(self, place: Workplace) -> None:
        self._sender = place.keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._port = _find_port(socket.SOCK_DGRAM)
        self._gone = Event()
        self._listening: Thread | None = None

    def send(self, event: str) -> bool:
        # no answer and no connection: the system takes it, whoever listens
        self._sender.sendto(event.encode(), (LOCALHOST, self._port))
        return True

    def come(self, receive: Receive) -> None:
        self._gone.clear()
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listener.bind((LOCALHOST, self._port))
        self._listening = Thread(target=self._listen, args=(listener, receive), daemon=True)
        self._listening.start()

    def leave(self) -> None:
        self._gone.set()
        if self._listening:
            self._listening.join()

    def _listen(self, listener: socket.socket, receive: Receive) -> None:
        listener.settimeout(0.05)
        with listener:
            while not self._gone.is_set():
                try:
                    receive(listener.recv(1024).decode())
                except TimeoutError:
                    continue


class Webhook:
    """HTTP: the producer asks the consumer to take each event, and hears when nobody does."""

    def __init__(self, place: Workplace) -> None:
        self._port = _find_port(socket.SOCK_STREAM)
        self._server: HTTPServer | None = None
        self._caller = place.keep(httpx.Client(timeout=30, trust_env=False))

    def send(self, event: str) -> bool:
        try:
            return self._caller.post(f"http://{LOCALHOST}:{self._port}", content=event).is_success
        except httpx.TransportError:
            return False

    def come(self, receive: Receive) -> None:
        self._server = HTTPServer((LOCALHOST, self._port), _make_handler(receive))
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def leave(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()


class RememberingWebhook(Webhook):
    """The same, with a producer that keeps what nobody took, and sends it first when it sends again."""

    def __init__(self, place: Workplace) -> None:
        super().__init__(place)
        self._kept: list[str] = []
        self.most_kept = 0

    def send(self, event: str) -> bool:
        self._kept.append(event)
        # in order: the later ones wait for the first
        while self._kept and super().send(self._kept[0]):
            self._kept.pop(0)
        self.most_kept = max(self.most_kept, len(self._kept))
        return not self._kept


class ThroughLog:
    """A topic: the producer appends, and the consumer reads on behind the offset that it committed."""

    def __init__(self, place: Workplace) -> None:
        self._topic, self._group, self._open = place.topic("direct"), place.group("direct"), place.consumer
        self._producer = place.producer()
        self._gone = Event()
        self._reading: Thread | None = None

    def send(self, event: str) -> bool:
        # the broker answers later; what it never took would be lost in the end
        self._producer.send(self._topic, value=event)
        return True

    def come(self, receive: Receive) -> None:
        self._gone.clear()
        consumer = self._open(group_id=self._group)
        # behind the group's committed offset; it has no other member
        consumer.assign(find_partitions(consumer, self._topic))
        self._reading = Thread(target=self._read, args=(consumer, receive), daemon=True)
        self._reading.start()

    def leave(self) -> None:
        self._gone.set()
        if self._reading:
            self._reading.join()

    def _read(self, consumer: Any, receive: Receive) -> None:
        while not self._gone.is_set():
            for message in take(consumer):
                receive(str(message.value))
            consumer.commit()
        consumer.close()


def _find_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as found:
        found.bind((LOCALHOST, 0))
        port: int = found.getsockname()[1]
        return port


def _make_handler(receive: Receive) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receive(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing: by default every request is a line on stderr."""

    return Handler
