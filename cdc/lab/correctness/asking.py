"""Clients that ask for payments through a network that loses, do not wait for ever, and may ask again."""

import json
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from threading import Timer
from typing import Final, Protocol

import psycopg
from psycopg.conninfo import make_conninfo

from cdc.lab.correctness.hops import BOOK, Payment, Trace
from cdc.lab.correctness.network import LOCALHOST, Loss, LossyNetwork, serve

TIMEOUT: Final = 1.0
"""How long a client waits for an answer."""


class PayingClient(Protocol):
    """A way to ask for a payment."""

    def ask(self, payment: Payment, loss: Loss | None) -> bool:
        """Ask for a payment while the network loses what it may; returns whether an answer came in time."""
        ...


class ServiceClient:
    """Asks a service by HTTP."""

    def __init__(self, network: LossyNetwork) -> None:
        self._network = network

    def ask(self, payment: Payment, loss: Loss | None) -> bool:
        self._network.loses = loss
        with closing(HTTPConnection(LOCALHOST, self._network.port, timeout=TIMEOUT)) as connection:
            try:
                connection.request("POST", "/", json.dumps(asdict(payment)))
                return connection.getresponse().status < 300
            except (OSError, HTTPException):
                return False


class DatabaseClient:
    """Writes into Postgres itself, in a transaction; what is lost is its COMMIT, or the answer to it."""

    def __init__(self, network: LossyNetwork, dsn: str) -> None:
        self._network = network
        self._dsn = make_conninfo(dsn, host=LOCALHOST, port=network.port)

    def ask(self, payment: Payment, loss: Loss | None) -> bool:
        self._network.loses = None
        with closing(psycopg.connect(self._dsn)) as connection:
            connection.execute(BOOK, payment.row)
            self._network.loses = loss
            gives_up = Timer(TIMEOUT, _hang_up, (connection.fileno(),))
            gives_up.start()
            try:
                connection.commit()
            except psycopg.OperationalError:
                return False
            finally:
                gives_up.cancel()
            return True


def _hang_up(connection: int) -> None:
    with socket.socket(fileno=os.dup(connection)) as end:
        end.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Wish:
    """A payment that a client wants, and what the network loses when it asks the first time."""

    payment: Payment
    loss: Loss | None


def let_ask(
    plan: Sequence[Sequence[Wish]],
    address: tuple[str, int],
    open_client: Callable[[LossyNetwork], PayingClient],
    trace: Trace,
    *,
    again: bool,
) -> None:
    """Let all clients ask at once, each through a network of its own."""

    def ask_all(wishes: Sequence[Wish]) -> None:
        network = LossyNetwork(address)
        with serve(network):
            client = open_client(network)
            for wish in wishes:
                _ask(client, wish, trace, again=again)

    with ThreadPoolExecutor(len(plan)) as threads:
        for done in [threads.submit(ask_all, wishes) for wishes in plan]:
            done.result()


def _ask(client: PayingClient, wish: Wish, trace: Trace, *, again: bool) -> None:
    """Ask until there is an answer, or once."""
    order, loss = wish.payment.order, wish.loss
    trace.note("client", order, "asks")
    while not client.ask(wish.payment, loss):
        trace.note("client", order, "hears nothing")
        if not again:
            return
        loss = None
        trace.note("client", order, "asks")
    trace.note("client", order, "is answered")
