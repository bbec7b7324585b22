"""A compacted log keeps the newest message of every key: all that a table needs, and too little for events.

The same accounts are written twice: as the balance after each change, and as the events that changed it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from cdc.lab.book import FIRST, SECOND, SECOND_MODELS, Passage
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure, PartitionCells
from cdc.lab.lesson import Findings, Lab
from cdc.lab.messages import COMPACTED, Message, read_compacted, read_whole
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

ACCOUNTS: Final = 8
BOOKINGS: Final = 80
DRAWN: Final = 20

Balances = dict[str, int]


@dataclass(frozen=True, slots=True)
class Booking:
    """An amount that comes to an account, or leaves it; None when the account is closed."""

    account: str
    amount: int | None


def run(place: Workplace) -> Findings:
    bookings = plan_bookings(place.random)
    truth = fold(bookings)
    balances, events = place.topic("balances", settings=COMPACTED), place.topic("events", settings=COMPACTED)
    kept = place.topic("events-kept")
    _produce(place, bookings, balances, (events, kept))
    clients = place.consumer(), place.producer()
    place.say("the broker looks every few seconds what it can compact")
    logs: dict[str, tuple[list[Message], Callable[[Sequence[Booking]], Balances]]] = {
        "balances, compacted": (read_compacted(*clients, balances), take_newest),
        "events, compacted": (read_compacted(*clients, events), fold),
        "events, all kept": (read_whole(place.consumer(), kept), fold),
    }
    rows = []
    for name, (messages, derive) in logs.items():
        derived = derive([_parse(message) for message in messages])
        wrong = sum(derived.get(account) != truth.get(account) for account in _list_accounts())
        rows.append((name, len(bookings), len(messages), ACCOUNTS - wrong, wrong))
    left, right, wrong = rows[0][2], rows[0][3], rows[1][4]
    return Findings(
        columns=("log", "written", "left", "accounts right", "accounts wrong"),
        rows=tuple(rows),
        sentence=f"Compaction left {left} of {len(bookings)} balances, and {right} of {ACCOUNTS} accounts are read"
        f" right from them; of the events it left the newest of each account, and {wrong} accounts come out wrong.",
        figure=_draw(bookings, logs["balances, compacted"][0]),
    )


def plan_bookings(random: Random) -> list[Booking]:
    """Plan bookings of every account; the first account is closed at the end, which is a tombstone."""
    accounts = _list_accounts()
    # twice each, so that no account has a newest event only
    order = accounts * 2 + [random.choice(accounts) for _ in range(BOOKINGS - 2 * ACCOUNTS - 1)]
    random.shuffle(order)
    return [*(Booking(account, random.randint(1, 99)) for account in order), Booking(accounts[0], None)]


def fold(bookings: Sequence[Booking]) -> Balances:
    """Add up events to the balance of each account that is not closed."""
    balances: Balances = {}
    for booking in bookings:
        if booking.amount is None:
            balances.pop(booking.account, None)
        else:
            balances[booking.account] = balances.get(booking.account, 0) + booking.amount
    return balances


def take_newest(bookings: Sequence[Booking]) -> Balances:
    """Take the last amount of each account as its balance, unless it is closed."""
    newest = {booking.account: booking.amount for booking in bookings}
    return {account: amount for account, amount in newest.items() if amount is not None}


def _list_accounts() -> list[str]:
    return [f"account {number}" for number in range(ACCOUNTS)]


def _produce(place: Workplace, bookings: Sequence[Booking], balances: str, events: Sequence[str]) -> None:
    producer: Any = place.producer()
    for count, booking in enumerate(bookings, 1):
        after = fold(bookings[:count]).get(booking.account)
        producer.send(balances, key=booking.account, value=None if after is None else str(after))
        for topic in events:
            value = None if booking.amount is None else str(booking.amount)
            producer.send(topic, key=booking.account, value=value)
    producer.flush()


def _parse(message: Message) -> Booking:
    return Booking(str(message.key), None if message.value is None else int(message.value))


def _draw(bookings: Sequence[Booking], left: Sequence[Message]) -> LogFigure:
    """Draw the end of the log of balances: all that was written, and what is left, at the same offsets."""
    kept = {message.offset for message in left}
    first = len(bookings) - DRAWN
    written, compacted = [], []
    for offset in range(first, len(bookings)):
        after = fold(bookings[: offset + 1]).get(bookings[offset].account)
        name = f"{bookings[offset].account[-1]}:{'-' if after is None else after}"
        tone = Tone.BAD if after is None else Tone.PLAIN
        written.append(Cell(offset, name, tone))
        compacted.append(Cell(offset, name, tone) if offset in kept else Cell(offset, "", Tone.QUIET))
    title = "The newest balance of each account stays at its offset (account:balance; red: a tombstone)"
    return LogFigure(title, (PartitionCells("written", tuple(written)), PartitionCells("left", tuple(compacted))))


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Change Data Capture", "Log compaction"),
        Passage(FIRST, "Event Sourcing", "Deriving current state from the event log"),
        Passage(SECOND, "Change Data Capture", "Log compaction"),
        Passage(SECOND_MODELS, "Event Sourcing and CQRS"),
    ),
    files=("sinks/latest/follower.py", "sinks/latest/topics.py"),
    parts=(Service.KAFKA,),
    run=run,
)
