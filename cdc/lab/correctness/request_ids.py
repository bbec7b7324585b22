"""A client that hears nothing cannot know whether its payment was done: it must ask again, and pays twice.

TCP, transactions, an idempotent producer and a consumer's position see to their own hop, and to nobody asking again.
An id that goes with the request through all hops does.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final
from uuid import UUID

from kafka import TopicPartition
from psycopg.conninfo import conninfo_to_dict

from cdc.lab.correctness import hops
from cdc.lab.correctness.hops import Loss, Payment, Sighting, Trace, Wish
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Arrow, Event, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.temporary import LOCALHOST, serve
from cdc.lab.waiting import in_background, wait_for
from cdc.lab.workplace import Workplace

CLIENTS: Final = 3
ORDERS: Final = 12  # payments that each client wants
Plan = list[list[Wish]]


@dataclass(frozen=True, slots=True)
class PaymentRun:
    """One way: how often each order was paid, and all that was seen of it."""

    paid: Counter[int]
    seen: list[Sighting]

    @property
    def row(self) -> tuple[int, int, int, int, int, int]:
        """Payments wanted, unanswered, asked again, paid once, twice or more often, never."""
        asked = Counter(each.order for each in self.seen if each.place == "client" and each.word == "asks")
        unanswered = sum(each.word == "hears nothing" for each in self.seen)
        times = [self.paid[order] for order in asked]
        again = sum(asked.values()) - len(asked)
        return len(asked), unanswered, again, times.count(1), sum(n > 1 for n in times), times.count(0)


def plan_wishes(random: Random) -> Plan:
    """Plan the wishes of each client. The network loses one request of each, and one answer."""
    plan = []
    for client in range(CLIENTS):
        losses = dict(zip(random.sample(range(ORDERS), 2), Loss, strict=True))
        payments = [
            Payment(client * ORDERS + number, random.randint(1, 99), str(UUID(int=random.getrandbits(128), version=4)))
            for number in range(ORDERS)
        ]
        plan.append([(payment, losses.get(number)) for number, payment in enumerate(payments)])
    return plan


def run(place: Workplace) -> Findings:
    plan = plan_wishes(place.random)
    bare = [[(replace(payment, request_id=None), loss) for payment, loss in wishes] for wishes in plan]
    place.say(
        f"{CLIENTS} clients; of each the network loses a request and an answer, and it waits {hops.TIMEOUT:.0f} s"
    )
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
        rows=rows,
        sentence=f"Who asks once leaves {never} payments undone; who asks again pays {in_postgres} twice by"
        f" transactions over TCP, and {through_log} through hops that each do everything once; with an id from the"
        f" client to the database {again} were asked again, and {once} of {wanted} paid once.",
        figure=_draw(plan, found),
    )


def _pay_through_log(place: Workplace, name: str, plan: Plan, *, again: bool = True) -> PaymentRun:
    topic, dsn, trace = place.topic(name), _make_table(place, name), Trace()
    producer = place.producer(acks="all", enable_idempotence=True)
    producer.partitions_for(topic)
    service, consumer = hops.make_service(producer, topic, trace), place.consumer(TopicPartition(topic, 0))
    with in_background([partial(hops.book_payments, consumer, dsn, trace)]):
        with serve(service):
            hops.let_ask(plan, (LOCALHOST, service.server_port), hops.ask_service, trace, again=again)
        wait_for(lambda: trace.count("Postgres") == trace.count("log"), "every message in Postgres")
    return _read_run(place, dsn, trace)


def _pay_directly(place: Workplace, plan: Plan) -> PaymentRun:
    dsn, trace = _make_table(place, "directly"), Trace()
    where = conninfo_to_dict(dsn)
    hops.let_ask(plan, (str(where["host"]), int(str(where["port"]))), partial(hops.ask_database, dsn=dsn), trace)
    return _read_run(place, dsn, trace)


def _make_table(place: Workplace, name: str) -> str:
    dsn = place.database(name)
    session = place.session(dsn)
    session.execute('CREATE TABLE payments ("order" int, amount int, request_id uuid UNIQUE)')
    session.execute("CREATE TABLE progress AS SELECT 0 AS position")
    return dsn


def _read_run(place: Workplace, dsn: str, trace: Trace) -> PaymentRun:
    paid = place.session(dsn).execute('SELECT "order" FROM payments')
    return PaymentRun(Counter(order for (order,) in paid), trace.seen)


def _draw(plan: Plan, found: dict[str, PaymentRun]) -> Timeline:
    """Draw one payment whose answer is lost, without an id and with it."""
    order = next(payment.order for payment, loss in plan[0] if loss is Loss.ANSWER)
    lanes: list[str] = []
    events: list[Event] = []
    arrows: list[Arrow] = []
    _, _, bare, with_id = found.values()
    for way, outcome in (("no id", bare), ("with an id", with_id)):
        client, service, postgres = names = [f"{way}: {place}" for place in ("client", "service", "Postgres")]
        seen = [each for each in outcome.seen if each.order == order]
        asked, taken, logged, booked = (
            [each.at - seen[0].at for each in seen if each.place == place]
            for place in ("client", "service", "log", "Postgres")
        )
        lanes += names
        arrows += [
            Arrow(client, asked[0], service, taken[0], "asks"),
            Arrow(client, asked[2], service, taken[1]),
            Arrow(service, logged[-1], client, asked[-1], tone=Tone.GOOD),
            *(Arrow(service, at, postgres, end) for at, end in zip(logged, booked, strict=True)),
        ]
        first, second, *_ = [each.word for each in seen if each.place == "Postgres"]
        events += [
            Event(service, logged[0], "its answer is lost", Tone.BAD, lost=True),
            Event(client, asked[1], "hears nothing, asks again", Tone.BAD, lost=True),
            Event(postgres, booked[0], first, Tone.GOOD),
            Event(postgres, booked[1], *(("booked again", Tone.BAD) if first == second else (second, Tone.QUIET))),
        ]
    title = "An answer is lost, and the client asks again: without an id its payment is booked twice"
    return Timeline(title, lanes, events, arrows=arrows)
