"""Revenue by country as a read model: a consumer group folds a log of orders into a table of Postgres."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Final

import psycopg
from psycopg import sql

from cdc.lab.messages import find_partitions, take_exactly

COUNTRIES: Final = ("AT", "BR", "DE", "FR", "IN", "JP", "KE", "NO", "PE", "US")
BATCH: Final = 40
"""So many events at most are folded in one transaction."""
_MAKE: Final = sql.SQL("CREATE TABLE {} (country text PRIMARY KEY, cents bigint NOT NULL)")
_TAKE_OVER: Final = sql.SQL("INSERT INTO {} SELECT * FROM {}")
_ADD: Final = sql.SQL(
    "INSERT INTO {} AS old VALUES (%s, %s) ON CONFLICT (country) DO UPDATE SET cents = old.cents + EXCLUDED.cents"
)


@dataclass(frozen=True, slots=True)
class OrderEvent:
    """An order is placed; or it is cancelled later, which takes its cents back."""

    country: str
    cents: int
    is_cancelled: bool = False

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "OrderEvent":
        return cls(**json.loads(text))


def plan_orders(random: Random, count: int) -> list[OrderEvent]:
    """Plan events: the first orders are one of each country; each fourth event cancels the oldest order that stands."""
    countries = iter([*COUNTRIES, *random.choices(COUNTRIES, k=count)])
    standing, events = list[OrderEvent](), list[OrderEvent]()
    for number in range(count):
        if number % 4 == 3:
            order = standing.pop(0)
            events.append(OrderEvent(order.country, order.cents, is_cancelled=True))
        else:
            standing.append(OrderEvent(next(countries), random.randint(100, 99_999)))
            events.append(standing[-1])
    return events


def add_up(events: Sequence[OrderEvent]) -> dict[str, int]:
    """The revenue of each country: what a view has to say when it has read these events."""
    revenue = dict.fromkeys(COUNTRIES, 0)
    for event in events:
        revenue[event.country] += add_net(event)
    return revenue


def add_gross(event: OrderEvent) -> int:
    """What an event adds to the revenue of its country, with a bug: a cancelled order still counts."""
    return 0 if event.is_cancelled else event.cents


def add_net(event: OrderEvent) -> int:
    """What an event adds to the revenue of its country."""
    return -event.cents if event.is_cancelled else event.cents


class RevenueView:
    """A table with the revenue of each country, and the group that reads the log for it. A new group begins at 0.

    `add`: what an event adds. `table` is made.
    """

    def __init__(
        self,
        session: "psycopg.Connection[Any]",
        consumer: Any,
        topic: str,
        table: str,
        add: Callable[[OrderEvent], int],
    ) -> None:
        self._session, self._consumer, self._add = session, consumer, add
        self.table = table
        self.folded = 0
        session.execute(_MAKE.format(sql.Identifier(table)))
        [self._partition] = find_partitions(consumer, topic)
        consumer.assign([self._partition])

    @property
    def position(self) -> int:
        """The offset of the next event."""
        return int(self._consumer.position(self._partition))

    def begin_as(self, other: "RevenueView") -> None:
        """Take over what another view has added up, and its position."""
        self._session.execute(_TAKE_OVER.format(sql.Identifier(self.table), sql.Identifier(other.table)))
        self._consumer.seek(self._partition, other.position)

    def fold_next(self, end: int) -> None:
        """Fold the next batch of the events before the offset `end`, and commit its offset."""
        messages = take_exactly(self._consumer, min(BATCH, end - self.position))
        events = [OrderEvent.from_text(str(message.value)) for message in messages]
        added = Counter[str]()
        for event in events:
            added[event.country] += self._add(event)
        with self._session.transaction():
            self._session.cursor().executemany(_ADD.format(sql.Identifier(self.table)), list(added.items()))
        self._consumer.commit()
        self.folded += len(events)

    def read(self) -> dict[str, int]:
        return dict(self._session.execute(sql.SQL("SELECT country, cents FROM {}").format(sql.Identifier(self.table))))
