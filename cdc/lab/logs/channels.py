"""Ways from a producer to one consumer that may be away: datagrams, webhooks with and without memory, and a log.

`send` is the producer's; it returns False if the producer learns that nobody has the event. The consumer is there
within `come`, each time at the same address; then its process is gone.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from socketserver import BaseRequestHandler, UDPServer
from threading import Event

import httpx
from kafka import TopicPartition

from cdc.lab.messages import take
from cdc.lab.temporary import LOCALHOST, make_web_server, serve
from cdc.lab.waiting import in_background
from cdc.lab.workplace import Workplace

Receive = Callable[[str], None]
"""Called by the consumer with each event."""


class Datagrams:
    """UDP: the producer throws, and hears nothing."""

    def __init__(self, place: Workplace) -> None:
        self._sender = place.keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._address = _find_address(socket.SOCK_DGRAM)

    def send(self, event: str) -> bool:
        # no answer and no connection: the system takes it, whoever listens
        self._sender.sendto(event.encode(), self._address)
        return True

    def come(self, receive: Receive) -> AbstractContextManager[None]:
        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                receive(self.request[0].decode())

        return serve(UDPServer(self._address, Handler))


class Webhook:
    """HTTP: the producer asks the consumer to take each event, and hears when nobody does."""

    def __init__(self, place: Workplace) -> None:
        _, self._port = _find_address(socket.SOCK_STREAM)
        self._caller = place.keep(httpx.Client(timeout=30, trust_env=False))

    def send(self, event: str) -> bool:
        try:
            return self._caller.post(f"http://{LOCALHOST}:{self._port}", content=event).is_success
        except httpx.TransportError:
            return False

    def come(self, receive: Receive) -> AbstractContextManager[None]:
        return serve(make_web_server(lambda body: receive(body.decode()), self._port))


class RememberingWebhook(Webhook):
    """The same, with a producer that keeps the events that nobody took, and sends them first when it sends again."""

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
        self._place, self._topic, self._group = place, place.topic("direct"), place.group("direct")
        self._producer = place.producer()

    def send(self, event: str) -> bool:
        # the broker answers later; an event that it never took would be lost in the end
        self._producer.send(self._topic, value=event)
        return True

    @contextmanager
    def come(self, receive: Receive) -> Iterator[None]:
        consumer = self._place.consumer(TopicPartition(self._topic, 0), group_id=self._group)

        def read(is_away: Event) -> None:
            while not is_away.is_set():
                for message in take(consumer):
                    receive(str(message.value))
                consumer.commit()
            consumer.close()

        with in_background([read]):
            yield


def _find_address(kind: socket.SocketKind) -> tuple[str, int]:
    with socket.socket(socket.AF_INET, kind) as found:
        found.bind((LOCALHOST, 0))
        port: int = found.getsockname()[1]
        return LOCALHOST, port


Channel = Datagrams | Webhook | ThroughLog
