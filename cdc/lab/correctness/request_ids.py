"""A client that hears nothing cannot know whether its payment was done: it must ask again, and pays twice.

TCP, transactions, an idempotent producer and a consumer's position see to their own hop, and to nobody asking again.
An id that goes with the request through all hops does.
"""

import threading
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final
from uuid import UUID

import psycopg
from kafka import TopicPartition
from psycopg.conninfo import conninfo_to_dict

from cdc.lab.book import FIRST_FUTURE, SECOND_PHILOSOPHY, Passage
from cdc.lab.correctness.asking import TIMEOUT, DatabaseClient, ServiceClient, Wish, let_ask
from cdc.lab.correctness.hops import Payment, PaymentService, Sighting, Trace, book_payments
from cdc.lab.correctness.network import LOCALHOST, Loss, serve
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Arrow, Event, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

CLIENTS: Final = 3
ORDERS: Final = 12
"""So many payments each client wants."""


@dataclass(frozen=True, slots=True)
class PaymentRun:
    """What came of one way: how often each order was paid, and what was seen on the way."""

    paid: Counter[int]
    seen: list[Sighting]

    @property
    def row(self) -> tuple[int, int, int, int, int, int]:
        """Payments wanted, unanswered, asked again, paid once, twice or more often, never."""
        asked = Counter(each.order for each in self.seen if each.place == "client" and each.what == "asks")
        unanswered = sum(each.what == "hears nothing" for each in self.seen)
        times = [self.paid[order] for order in asked]
        again = sum(asked.values()) - len(asked)
        return len(asked), unanswered, again, times.count(1), sum(n > 1 for n in times), times.count(0)


def plan_wishes(random: Random) -> list[list[Wish]]:
    """Plan what each client wants. The network loses one request of each, and one answer."""
    plan = []
    for client in range(CLIENTS):
        lossy = random.sample(range(ORDERS), 2)
        losses = dict(zip(lossy, Loss, strict=True))
        payments = [
            Payment(client * ORDERS + number, random.randint(1, 99), str(UUID(int=random.getrandbits(128), version=4)))
            for number in range(ORDERS)
        ]
        plan.append([Wish(payment, losses.get(number)) for number, payment in enumerate(payments)])
    return plan


def run(place: Workplace) -> Findings:
    plan = plan_wishes(place.random)
    bare = [[replace(wish, payment=replace(wish.payment, request_id=None)) for wish in wishes] for wishes in plan]
    place.say(f"{CLIENTS} clients; of each the network loses a request and an answer, and it waits {TIMEOUT:.0f} s")
    found = {
        "asks once": _pay_through_log(place, "asks-once", bare, again=False),
        "asks again, Postgres itself": _pay_directly(place, bare),
        "asks again, through service and log": _pay_through_log(place, "asks-again", bare),
        "asks again with its id": _pay_through_log(place, "with-ids", plan),
    }
    rows = [(way, *each.row) for way, each in found.items()]
    (*_, never), (*_, in_postgres, _), (*_, through_log, _), (_, wanted, _, again, once, *_) = rows
    return Findings(
        columns=("client", "payments", "unanswered", "asked again", "paid once", "twice", "never"),
        rows=tuple(rows),
        sentence=f"Who asks once leaves {never} payments undone; who asks again pays {in_postgres} twice by"
        f" transactions over TCP, and {through_log} through hops that each do everything once; with an id from the"
        f" client to the database {again} were asked again, and {once} of {wanted} paid once.",
        figure=_draw(plan, found),
    )


def _pay_through_log(place: Workplace, name: str, plan: list[list[Wish]], *, again: bool = True) -> PaymentRun:
    topic, dsn, trace, is_over = place.topic(name), _make_table(place), Trace(), threading.Event()
    producer = place.producer(acks="all", enable_idempotence=True)
    producer.partitions_for(topic)
    follow = partial(book_payments, place.consumer(), TopicPartition(topic, 0), dsn, trace, is_over)
    booking = threading.Thread(target=follow, daemon=True)
    booking.start()
    service = PaymentService(producer, topic, trace)
    with serve(service):
        let_ask(plan, (LOCALHOST, service.server_port), ServiceClient, trace, again=again)
    wait_for(lambda: trace.count("Postgres") == trace.count("log"), "every message in Postgres")
    is_over.set()
    booking.join()
    return PaymentRun(_read_paid(dsn), trace.seen)


def _pay_directly(place: Workplace, plan: list[list[Wish]]) -> PaymentRun:
    dsn, trace = _make_table(place), Trace()
    where = conninfo_to_dict(dsn)
    address = str(where["host"]), int(str(where["port"]))
    let_ask(plan, address, partial(DatabaseClient, dsn=dsn), trace, again=True)
    return PaymentRun(_read_paid(dsn), trace.seen)


def _make_table(place: Workplace) -> str:
    dsn = place.database("request-ids")
    with psycopg.connect(dsn) as connection:
        connection.execute('CREATE TABLE payments ("order" int, amount int, request_id uuid UNIQUE)')
        connection.execute("CREATE TABLE progress AS SELECT 0 AS position")
    return dsn


def _read_paid(dsn: str) -> Counter[int]:
    with psycopg.connect(dsn) as connection:
        return Counter(order for (order,) in connection.execute('SELECT "order" FROM payments'))


def _draw(plan: list[list[Wish]], found: dict[str, PaymentRun]) -> Timeline:
    """Draw one payment whose answer is lost, without an id and with it."""
    order = next(wish.payment.order for wish in plan[0] if wish.loss is Loss.ANSWER)
    lanes: list[str] = []
    events: list[Event] = []
    arrows: list[Arrow] = []
    _, _, bare, with_id = found.values()
    for way, outcome in (("no id", bare), ("with an id", with_id)):
        client, service, postgres = names = [f"{way}: {place}" for place in ("client", "service", "Postgres")]
        seen = [each for each in outcome.seen if each.order == order]
        asked, taken, logged, booked = (_find_times(seen, place) for place in ("client", "service", "log", "Postgres"))
        lanes += names
        arrows += [
            Arrow(client, asked[0], service, taken[0], "asks"),
            Arrow(client, asked[2], service, taken[1]),
            Arrow(service, logged[-1], client, asked[-1], tone=Tone.GOOD),
            *(Arrow(service, at, postgres, end) for at, end in zip(logged, booked, strict=True)),
        ]
        first, second, *_ = [each.what for each in seen if each.place == "Postgres"]
        events += [
            Event(service, logged[0], "its answer is lost", Tone.BAD, lost=True),
            Event(client, asked[1], "hears nothing, asks again", Tone.BAD, lost=True),
            Event(postgres, booked[0], first, Tone.GOOD),
            Event(postgres, booked[1], *(("booked again", Tone.BAD) if first == second else (second, Tone.QUIET))),
        ]
    title = "An answer is lost, and the client asks again: without an id its payment is booked twice"
    return Timeline(title, tuple(lanes), tuple(events), arrows=tuple(arrows))


def _find_times(seen: list[Sighting], place: str) -> list[float]:
    """When the payment was at one place, in milliseconds."""
    return [(each.at - seen[0].at) * 1000 for each in seen if each.place == place]


LAB: Final = Lab(
    passages=(
        Passage(FIRST_FUTURE, "Aiming for Correctness", "The End-to-End Argument for Databases"),
        Passage(SECOND_PHILOSOPHY, "Aiming for Correctness", "The End-to-End Argument for Databases"),
    ),
    files=("cdc/columns/netting/transactions.py", "cdc/run/verify/verify.py"),
    parts=(Service.POSTGRES, Service.KAFKA),
    run=run,
)
