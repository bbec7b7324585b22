"""The same transactions, told by polling `updated_at`, by triggers into a table of changes, and by the log.

Polling sees the newest version of the rows that are there. Triggers see every change, and every write pays for it. Both
miss a transaction that began earlier and commits after one has looked, unless the reader waits for those that are open.
"""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from random import Random
from statistics import median
from typing import Final

from cdc.lab.capture.readers import WAYS, CaptureWay, Version
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Event, Span, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.waiting import read_clock, wait_for
from cdc.lab.workplace import Workplace

ORDERS: Final = 600
ROUNDS: Final = 6  # each way looks at the end of a round
UPDATES: Final = 4
UPDATED: Final = 100  # orders in an update; there are some a round, so that some orders have more than one new version
DELETED: Final = 10
POLLING, OTHERS, LATECOMER = "polling", "other transactions", "a late one"
LATE: Final = 20
LATE_ROUND: Final = 2


class OrdersWrite(StrEnum):
    """The writing of a transaction. A late one inserts orders, and commits after everyone has looked."""

    LATE = "late commits"
    INSERT = "inserts"
    UPDATE = "versions"
    DELETE = "deletes"
    TRUNCATE = "truncates"


SHOWN: Final = (OrdersWrite.UPDATE, OrdersWrite.DELETE, OrdersWrite.TRUNCATE, OrdersWrite.LATE)
Planned = tuple[OrdersWrite, tuple[int, ...]]
_INSERT: Final = "INSERT INTO orders SELECT unnest(%s::int[]), 1, now()"
_STATEMENTS: Final = {
    OrdersWrite.LATE: _INSERT,
    OrdersWrite.INSERT: _INSERT,
    OrdersWrite.UPDATE: "UPDATE orders SET version = version + 1, updated_at = now() WHERE id = ANY(%s)",
    OrdersWrite.DELETE: "DELETE FROM orders WHERE id = ANY(%s)",
    OrdersWrite.TRUNCATE: "TRUNCATE orders",
}


class WatchedTable:
    """The table in a schema of its own, who writes to it, and who watches it. Times are in ms."""

    def __init__(self, place: Workplace, way: CaptureWay, dsn: str) -> None:
        options = f"-c search_path={way.schema}"
        self._writer, self._late, watcher = (place.session(dsn, options=options) for _ in range(3))
        self._writer.execute(f"CREATE SCHEMA {way.schema}; {way.tables}".encode())
        self._changes = way.read(watcher)
        self._late_began = 0.0
        self._costs: list[float] = []
        self.name = way.name
        self.seen: list[Version] = []
        self.spans: list[Span] = []
        self.looks: list[float] = []
        self.look()

    @property
    def milliseconds(self) -> float:
        """The median of an update, without its commit, whose wait for the disk is no matter of the way."""
        return median(self._costs)

    def look(self) -> None:
        self.seen += next(self._changes)
        self.looks.append(read_clock())

    def write(self, planned: Planned) -> None:
        """Carry out a transaction, and commit it; a late one stays open."""
        kind, orders = planned
        began, given = read_clock(), (list(orders),) if orders else ()
        if kind is OrdersWrite.LATE:
            self._late.execute("BEGIN")
            self._late.execute(_STATEMENTS[kind], given)
            self._late_began = began
            return
        with self._writer.transaction():
            self._writer.execute(_STATEMENTS[kind], given)
            took = read_clock() - began
        self.spans.append(Span(OTHERS, began, read_clock()))
        if kind is OrdersWrite.UPDATE:
            self._costs.append(took)

    def look_behind_all(self) -> None:
        """Look when no transaction of now is open any more, another database's neither: they share the horizon."""
        [[newest]] = self._writer.execute("SELECT pg_current_xact_id()::text").fetchall()
        passed = "SELECT pg_snapshot_xmin(pg_current_snapshot()) > %s::xid8"
        wait_for(lambda: self._writer.execute(passed, (newest,)).fetchall() == [(True,)], "open transactions end")
        self.look()

    def commit_late(self) -> None:
        self._late.execute("COMMIT")
        self.spans.append(Span(LATECOMER, self._late_began, read_clock(), "open: nobody sees it", Tone.BAD))


def run(place: Workplace) -> Findings:
    rounds = plan_rounds(place.random)
    changes = list_changes([transaction for planned in rounds for transaction in planned])
    dsn = place.database("triggers")
    tables = [WatchedTable(place, way, dsn) for way in WAYS]
    place.say(f"the same {sum(map(len, rounds))} transactions, in turn on a table for each way")
    for number, planned in enumerate(rounds):
        for transaction in planned:
            # in another order each time: a disturbance of one is one of all
            for table in place.random.sample(tables, len(tables)):
                table.write(transaction)
        for table in tables:
            table.look()
            if number == LATE_ROUND:
                table.commit_late()
    behind_nobody = tables[3]
    behind_nobody.look_behind_all()
    missed = [count_missed(changes, table.seen) for table in tables]
    _, polled, by_number, finished, logged = (found.total() for found in missed)
    bare, _, _, triggered, undisturbed = costs = [table.milliseconds for table in tables]
    return Findings(
        columns=("way", f"ms for {UPDATED} updates", "changes", "missed", *map(str, SHOWN)),
        rows=[
            (table.name, round(cost, 1), len(changes), found.total(), *(found[kind] for kind in SHOWN))
            for table, cost, found in zip(tables, costs, missed, strict=True)
        ],
        sentence=f"Of {len(changes)} changes polling missed {polled}, and triggers, read by number, {by_number}; made"
        f" whole they missed {finished}, but {UPDATED} updates took {triggered:.1f} ms instead of {bare:.1f};"
        f" the log missed {logged}, and they took {undisturbed:.1f} ms.",
        figure=_draw(tables[1]),
    )


def plan_rounds(random: Random) -> list[list[Planned]]:
    """Plan the writes from one look to the next; the last round takes all away."""
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
    """List every change of a row, and the kind of its write."""
    newest: Counter[int] = Counter()
    changes = []
    for kind, orders in transactions:
        for order in orders or (0,):
            is_there = kind not in (OrdersWrite.DELETE, OrdersWrite.TRUNCATE)
            newest[order] += is_there
            changes.append(((order, newest[order] if is_there else 0), kind))
    return changes


def count_missed(changes: Sequence[tuple[Version, OrdersWrite]], seen: Sequence[Version]) -> Counter[OrdersWrite]:
    """Count the changes that were not seen, by the kind of their write."""
    known = set(seen)
    return Counter(kind for version, kind in changes if version not in known)


def _draw(polled: WatchedTable) -> Timeline:
    """Draw the round of the late transaction and the next one, as polling saw them."""
    before, missing, after = polled.looks[LATE_ROUND : LATE_ROUND + 3]
    spans = [span for span in polled.spans if before < span.start < after]
    return Timeline(
        "A transaction that a look has missed has an updated_at that no later look asks for",
        (OTHERS, LATECOMER, POLLING),
        [Event(LATECOMER, span.start, "updated_at", Tone.BAD) for span in spans if span.lane == LATECOMER],
        spans=(
            *spans,
            Span(POLLING, before, missing, "one look: updated_at within this time", Tone.GOOD),
            Span(POLLING, missing, after, "the next: within this time", Tone.GOOD),
        ),
    )
