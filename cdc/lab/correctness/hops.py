"""The hops of a payment behind its client: a service, a log, and who follows it into Postgres.

Each hop does its own: TCP, an idempotent producer, a position in the transaction of its effect.
"""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event
from typing import Any, Final

import psycopg
from kafka import TopicPartition

from cdc.lab.correctness.network import LOCALHOST
from cdc.lab.messages import take

BOOK: Final = "INSERT INTO payments VALUES (%s, %s, %s) ON CONFLICT (request_id) DO NOTHING"
"""Without a request id, there is no conflict: NULLs are not equal."""


@dataclass(frozen=True, slots=True)
class Payment:
    """What a client wants once. `request_id`: the same whenever it asks again, or none."""

    order: int
    amount: int
    request_id: str | None

    @property
    def row(self) -> tuple[int, int, str | None]:
        return self.order, self.amount, self.request_id


@dataclass(frozen=True, slots=True)
class Sighting:
    """A payment at one place of its way."""

    place: str
    order: int
    at: float
    what: str = ""


class Trace:
    """Where payments were seen, by all hops."""

    def __init__(self) -> None:
        self.seen: list[Sighting] = []

    def note(self, place: str, order: int, what: str = "") -> None:
        self.seen.append(Sighting(place, order, time.monotonic(), what))

    def count(self, place: str) -> int:
        return sum(each.place == place for each in list(self.seen))


class PaymentService(ThreadingHTTPServer):
    """Takes payments by HTTP, appends each to a log, and answers when the log has it."""

    daemon_threads = False
    """So that it ends when all that it was asked is in the log."""

    def __init__(self, producer: Any, topic: str, trace: Trace) -> None:
        super().__init__((LOCALHOST, 0), _PaymentHandler)
        self.producer, self.topic, self.trace = producer, topic, trace


class _PaymentHandler(BaseHTTPRequestHandler):
    server: PaymentService

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        order = json.loads(body)["order"]
        self.server.trace.note("service", order)
        self.server.producer.send(self.server.topic, value=body).get(60)
        self.server.trace.note("log", order)
        # who asked may be gone
        with suppress(OSError):
            self.send_response(204)
            self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing: by default every request is a line on stderr."""


def book_payments(consumer: Any, log: TopicPartition, dsn: str, trace: Trace, is_over: Event) -> None:
    """Follow the log into Postgres until all is over: each message once, by its position."""
    consumer.assign([log])
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not is_over.is_set():
            for message in take(consumer):
                payment = Payment(**json.loads(str(message.value)))
                with connection.transaction():
                    is_new = connection.execute(BOOK, payment.row).rowcount == 1
                    connection.execute("UPDATE progress SET position = %s", (message.offset + 1,))
                trace.note("Postgres", payment.order, "booked" if is_new else "known by its id")
