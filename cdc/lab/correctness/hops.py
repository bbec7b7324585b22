"""The hops of a payment: its client, a network that loses, a service, a log, and who follows it into Postgres.

Each hop behind the client does its own: TCP, an idempotent producer, a position in the transaction of its effect.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from http.client import HTTPConnection, HTTPException
from http.server import ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread, Timer
from typing import Any, Final, NamedTuple

import msgspec
import psycopg
from psycopg.conninfo import make_conninfo

from cdc.lab.messages import encode, take
from cdc.lab.temporary import LOCALHOST, make_web_server, serve
from cdc.lab.waiting import read_clock, run_at_once

TIMEOUT: Final = 1.0  # how long a client waits for an answer
_BOOK: Final = "INSERT INTO payments VALUES (%s, %s, %s) ON CONFLICT (request_id) DO NOTHING"
"""Without a request id, there is no conflict: NULLs are not equal."""


class Loss(Enum):
    REQUEST = "request"
    ANSWER = "answer"


class LossyNetwork(ThreadingTCPServer):
    """The network, as a proxy. From now on it loses all that `loses` says."""

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
        """Pass on all that comes until it ends; returns False if some of it was lost."""
        is_whole = True
        # either end may go at any time
        with suppress(OSError):
            while data := source.recv(65_536):
                if self.server.loses is loss:
                    is_whole = False
                else:
                    target.sendall(data)
        return is_whole


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment that a client wants once. `request_id`: the same whenever it asks again, or none."""

    order: int
    amount: int
    request_id: str | None

    def book(self, session: "psycopg.Connection[Any]") -> bool:
        """Book it; returns False if it is known by its id."""
        return session.execute(_BOOK, (self.order, self.amount, self.request_id)).rowcount == 1


class Sighting(NamedTuple):
    """A payment at one place of its way, in milliseconds."""

    place: str
    order: int
    at: float
    word: str = ""


class Trace:
    """Where payments were seen, by all hops."""

    def __init__(self) -> None:
        self.seen: list[Sighting] = []

    def note(self, place: str, order: int, word: str = "") -> None:
        self.seen.append(Sighting(place, order, read_clock(), word))

    def count(self, place: str) -> int:
        return sum(each.place == place for each in list(self.seen))


def make_service(producer: Any, topic: str, trace: Trace) -> ThreadingHTTPServer:
    """Make a service that takes payments by HTTP, appends each to a log, and answers when the log has it."""

    def append(body: bytes) -> None:
        order = msgspec.json.decode(body, type=Payment).order
        trace.note("service", order)
        producer.send(topic, value=body).get(60)
        trace.note("log", order)

    return make_web_server(append)


def book_payments(consumer: Any, dsn: str, trace: Trace, is_over: Event) -> None:
    """Follow the log into Postgres until all is over: each message once, by its position."""
    with psycopg.connect(dsn, autocommit=True) as session:
        while not is_over.is_set():
            for message in take(consumer):
                payment = message.decode(Payment)
                with session.transaction():
                    is_new = payment.book(session)
                    session.execute("UPDATE progress SET position = %s", (message.offset + 1,))
                trace.note("Postgres", payment.order, "booked" if is_new else "known by its id")


Ask = Callable[[LossyNetwork, Payment, Loss | None], bool]
"""Asks for a payment while the network has this loss; returns whether an answer came in time."""


def ask_service(network: LossyNetwork, payment: Payment, loss: Loss | None) -> bool:
    network.loses = loss
    with closing(HTTPConnection(LOCALHOST, network.port, timeout=TIMEOUT)) as connection:
        try:
            connection.request("POST", "/", encode(payment))
            return connection.getresponse().status < 300
        except (OSError, HTTPException):
            return False


def ask_database(network: LossyNetwork, payment: Payment, loss: Loss | None, *, dsn: str) -> bool:
    """Write into Postgres itself, in a transaction; its COMMIT is lost, or the answer to it."""
    network.loses = None
    with closing(psycopg.connect(make_conninfo(dsn, host=LOCALHOST, port=network.port))) as session:
        payment.book(session)
        network.loses = loss
        gives_up = Timer(TIMEOUT, _hang_up, (session.fileno(),))
        gives_up.start()
        try:
            session.commit()
        except psycopg.OperationalError:
            return False
        finally:
            gives_up.cancel()
        return True


def _hang_up(connection: int) -> None:
    with socket.socket(fileno=os.dup(connection)) as end:
        end.shutdown(socket.SHUT_RDWR)


Wish = tuple[Payment, Loss | None]
"""A payment that a client wants, and the loss of the network when it asks the first time."""


def let_ask(
    plan: Sequence[Sequence[Wish]], address: tuple[str, int], ask: Ask, trace: Trace, *, again: bool = True
) -> None:
    """Let all clients ask at once, each through a network of its own; `again`: until there is an answer."""

    def ask_all(wishes: Sequence[Wish]) -> None:
        network = LossyNetwork(address)
        with serve(network):
            for payment, loss in wishes:
                trace.note("client", payment.order, "asks")
                while not ask(network, payment, loss):
                    trace.note("client", payment.order, "hears nothing")
                    if not again:
                        break
                    loss = None
                    trace.note("client", payment.order, "asks")
                else:
                    trace.note("client", payment.order, "is answered")

    run_at_once([partial(ask_all, wishes) for wishes in plan])
