"""A compacted log keeps the newest message of every key: all that a table needs, and too little for events.

The same accounts are written twice: as the balance after each change, and as the events that changed it.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure
from cdc.lab.lesson import Findings
from cdc.lab.messages import COMPACTED, Message, read_compacted, read_whole
from cdc.lab.workplace import Workplace

ACCOUNTS: Final = tuple(f"account {number}" for number in range(8))
BOOKINGS: Final = 80
DRAWN: Final = 20

Booking = tuple[str, int | None]
"""An account, and an amount that comes to it or leaves it; None when the account is closed."""
Balances = dict[str, int]


def run(place: Workplace) -> Findings:
    bookings = plan_bookings(place.random)
    truth = fold(bookings)
    balances, events = place.topic("balances", settings=COMPACTED), place.topic("events", settings=COMPACTED)
    kept, producer, consumer = place.topic("events-kept"), place.producer(), place.consumer()
    for number, (account, amount) in enumerate(bookings, 1):
        for topic, value in ((balances, fold(bookings[:number]).get(account)), (events, amount), (kept, amount)):
            producer.send(topic, key=account, value=None if value is None else str(value))
    producer.flush()
    place.say("the broker looks every few seconds for messages to compact")
    logs: dict[str, tuple[list[Message], Callable[[Sequence[Booking]], Balances]]] = {
        "balances, compacted": (read_compacted(consumer, producer, balances), take_newest),
        "events, compacted": (read_compacted(consumer, producer, events), fold),
        "events, all kept": (read_whole(consumer, kept), fold),
    }
    rows = []
    for name, (messages, derive) in logs.items():
        derived = derive([(str(each.key), each.decode(int) if each.value else None) for each in messages])
        wrong = sum(derived.get(account) != truth.get(account) for account in ACCOUNTS)
        rows.append((name, len(bookings), len(messages), len(ACCOUNTS) - wrong, wrong))
    left, right, wrong = rows[0][2], rows[0][3], rows[1][4]
    return Findings(
        columns=("log", "written", "left", "accounts right", "accounts wrong"),
        rows=rows,
        sentence=f"Compaction left {left} of {len(bookings)} balances, and {right} of {len(ACCOUNTS)} accounts are read"
        f" right from them; of the events it left the newest of each account, and {wrong} accounts come out wrong.",
        figure=_draw(bookings, logs["balances, compacted"][0]),
    )


def plan_bookings(random: Random) -> list[Booking]:
    """Plan bookings of every account; the first account is closed at the end, which is a tombstone."""
    # twice each, so that no account has a newest event only
    order = [*ACCOUNTS * 2, *(random.choice(ACCOUNTS) for _ in range(BOOKINGS - 2 * len(ACCOUNTS) - 1))]
    random.shuffle(order)
    return [*((account, random.randint(1, 99)) for account in order), (ACCOUNTS[0], None)]


def fold(bookings: Sequence[Booking]) -> Balances:
    """Add up events to the balance of each account that is not closed."""
    balances: Balances = {}
    for account, amount in bookings:
        if amount is None:
            balances.pop(account, None)
        else:
            balances[account] = balances.get(account, 0) + amount
    return balances


def take_newest(bookings: Sequence[Booking]) -> Balances:
    """Take the last amount of each account as its balance, unless it is closed."""
    return {account: amount for account, amount in dict(bookings).items() if amount is not None}


def _draw(bookings: Sequence[Booking], left: Sequence[Message]) -> LogFigure:
    """Draw the end of the log of balances: all that was written, and the rest of it, at the same offsets."""
    kept = {message.offset for message in left}
    written = []
    for offset in range(len(bookings) - DRAWN, len(bookings)):
        account, _ = bookings[offset]
        after = fold(bookings[: offset + 1]).get(account)
        name = f"{account[-1]}:{'-' if after is None else after}"
        written.append(Cell(offset, name, Tone.BAD if after is None else Tone.PLAIN))
    compacted = [cell if cell.offset in kept else Cell(cell.offset, "", Tone.QUIET) for cell in written]
    title = "The newest balance of each account stays at its offset (account:balance; red: a tombstone)"
    return LogFigure(title, {"written": written, "left": compacted})
