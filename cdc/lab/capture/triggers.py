"""What polling `updated_at`, triggers into a table of changes, and the log tell of the same transactions.

Polling sees the newest version of the rows that are there. Triggers see every change, and every write pays for it. Both
miss a transaction that began earlier and commits after one has looked, unless the reader waits for those that are open.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.capture.readers import WAYS, Version
from cdc.lab.capture.watched_table import LATECOMER, OTHERS, POLLING, OrdersWrite, Planned, WatchedTable
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

ORDERS: Final = 600
ROUNDS: Final = 6
"""Each way looks at the end of a round."""
UPDATES: Final = 4
UPDATED: Final = 100
"""Orders in an update; there are some a round, so that some orders have more than one new version."""
DELETED: Final = 10
LATE: Final = 20
LATE_ROUND: Final = 2
SHOWN: Final = (OrdersWrite.UPDATE, OrdersWrite.DELETE, OrdersWrite.TRUNCATE, OrdersWrite.LATE)


def run(place: Workplace) -> Findings:
    rounds = plan_rounds(place.random)
    changes = list_changes([transaction for planned in rounds for transaction in planned])
    dsn = place.database("triggers")
    tables = [WatchedTable(place, way, dsn) for way in WAYS]
    place.say(f"the same {sum(map(len, rounds))} transactions, in turn on a table for each way")
    for number, planned in enumerate(rounds):
        for transaction in planned:
            # in another order each time: what disturbs one, disturbs all alike
            for table in place.random.sample(tables, len(tables)):
                table.write(transaction)
        for table in tables:
            table.look()
            if number == LATE_ROUND:
                table.commit_late()
    missed = [count_missed(changes, table.seen) for table in tables]
    _, polled, by_number, finished, logged = (found.total() for found in missed)
    bare, _, _, triggered, undisturbed = costs = [table.milliseconds for table in tables]
    return Findings(
        columns=("way", f"ms for {UPDATED} updates", "changes", "missed", *map(str, SHOWN)),
        rows=tuple(
            (table.name, round(cost, 1), len(changes), found.total(), *(found[kind] for kind in SHOWN))
            for table, cost, found in zip(tables, costs, missed, strict=True)
        ),
        sentence=f"Of {len(changes)} changes polling missed {polled}, and triggers, read by number, {by_number}; made"
        f" whole they missed {finished}, but {UPDATED} updates took {triggered:.1f} ms instead of {bare:.1f};"
        f" the log missed {logged}, and they took {undisturbed:.1f} ms.",
        figure=_draw(tables[1]),
    )


def plan_rounds(random: Random) -> list[list[Planned]]:
    """Plan what is written from one look to the next; the last round takes all away."""
    alive = list(range(1, ORDERS + 1))
    rounds: list[list[Planned]] = [[(OrdersWrite.INSERT, tuple(alive))]]
    for number in range(1, ROUNDS):
        late = [(OrdersWrite.LATE, tuple(range(ORDERS + 1, ORDERS + LATE + 1)))] if number == LATE_ROUND else []
        updates = [(OrdersWrite.UPDATE, tuple(random.sample(alive, UPDATED))) for _ in range(UPDATES)]
        deleted = random.sample(alive, DELETED)
        alive = [order for order in alive if order not in deleted]
        rounds.append([*late, *updates, (OrdersWrite.DELETE, tuple(deleted))])
    return [*rounds, [(OrdersWrite.TRUNCATE, ())]]


def list_changes(transactions: Sequence[Planned]) -> list[tuple[Version, OrdersWrite]]:
    """List every change of a row, and what changed it."""
    newest: Counter[int] = Counter()
    changes = []
    for kind, orders in transactions:
        for order in orders or (0,):
            is_there = kind not in (OrdersWrite.DELETE, OrdersWrite.TRUNCATE)
            newest[order] += is_there
            changes.append(((order, newest[order] if is_there else 0), kind))
    return changes


def count_missed(changes: Sequence[tuple[Version, OrdersWrite]], seen: Sequence[Version]) -> Counter[OrdersWrite]:
    """Count the changes that were not seen, by what made them."""
    known = set(seen)
    return Counter(kind for version, kind in changes if version not in known)


def _draw(polled: WatchedTable) -> Timeline:
    """Draw the round of the late transaction and the next one, as polling saw them."""
    before, missing, after = polled.looks[LATE_ROUND : LATE_ROUND + 3]
    spans = [span for span in polled.spans if before < span.start < after]
    return Timeline(
        "A transaction that a look has missed has an updated_at that no later look asks for",
        (OTHERS, LATECOMER, POLLING),
        events=tuple(Event(LATECOMER, span.start, "updated_at", Tone.BAD) for span in spans if span.lane == LATECOMER),
        spans=(
            *spans,
            Span(POLLING, before, missing, "one look: updated_at within this time", Tone.GOOD),
            Span(POLLING, missing, after, "the next: within this time", Tone.GOOD),
        ),
    )


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Change Data Capture", "Implementing change data capture"),
        Passage(SECOND, "Change Data Capture", "Implementing change data capture"),
    ),
    files=("connect/capture/debezium_properties.py", "connect/source/publication.py"),
    parts=(Service.POSTGRES,),
    run=run,
)
