"""Commands become events once they are validated; the state is the sum of all events, and they say why it is so.

Who validates events that are written already, or beside another whose events it does not see yet, sells more than there
is. One validator for each item, to whom all its commands come in order, does not. Changes of rows do not say why.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from kafka import TopicPartition

from cdc.lab.decoding import LoggedChange, Session, make_slot, read_slot
from cdc.lab.derived.shop import ITEMS, STOCK, Act, Deed, Shop, count_beyond, fold, plan_commands
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure
from cdc.lab.lesson import Findings
from cdc.lab.messages import encode, read_whole, take_exactly
from cdc.lab.workplace import Workplace

VALIDATORS: Final = 2
AT_ONCE: Final = 8  # commands that are decided before a validator looks again at the events
SNAPSHOT_AT: Final = 0.75  # the share of the events that a snapshot has
DRAWN_ITEM: Final = 0
TABLES: Final = """
    CREATE TABLE stock (item int PRIMARY KEY, amount int NOT NULL CHECK (amount >= 0));
    CREATE TABLE carts (cart int, item int, PRIMARY KEY (cart, item));
    CREATE TABLE orders (cart int, item int, PRIMARY KEY (cart, item))"""


def run(place: Workplace) -> Findings:
    commands = plan_commands(place.random)
    place.say(f"{len(commands)} commands, believed at once, and decided by {VALIDATORS} validators in two ways")
    by_item = _validate(place, "item", commands, lambda command: command.item)
    believed = place.read(place.publish(place.topic("unchecked"), commands), Act)
    oversold = place.read(_validate(place, "cart", commands, lambda command: command.cart), Act)
    right = place.read(by_item, Act)
    at = int(len(right) * SNAPSHOT_AT)
    [snapshot] = place.read(place.publish(place.topic("snapshots"), [fold(right[:at])]), Shop)
    tail = place.read(by_item, Act, start=at)
    mistake = next(event for event in reversed(right) if event.deed is Deed.ORDER)
    undone = place.read(place.publish(by_item, [replace(mistake, deed=Deed.UNDO)]), Act)
    refused, changes, left = _keep_rows(place.session(place.database("shop")), commands)
    taken, decided = _describe(right)[-1], len(commands) - len(right)
    rows = [
        ("events, checked by who reads them", 0, *_describe(believed)),
        ("two validators, by cart", len(commands) - len(oversold), *_describe(oversold)),
        ("two validators, by item", decided, *_describe(right)),
        ("the same, from a snapshot", decided, *_describe(tail, snapshot)),
        ("the same, an order undone", decided, *_describe(undone)),
        ("rows, and their changes", refused, len(changes), count_rows_beyond(changes), left, count_gone(changes)),
    ]
    return Findings(
        columns=("way", "commands refused", "read", "sold beyond the stock", "left", "taken out again, as told"),
        rows=rows,
        sentence=f"Checked when they were read, events sold {rows[0][3]} too many, by two validators for the same items"
        f" {rows[1][3]}, by one for each item {rows[2][3]}; events say that {taken} were taken out of carts again,"
        f" changes of rows that {count_gone(changes)} went, and not why.",
        figure=_draw({"checked when read": believed, "validators by cart": oversold, "validators by item": right}),
    )


def _validate(place: Workplace, name: str, commands: Sequence[Act], key: Callable[[Act], int]) -> str:
    """Let two validators decide at once, each on the commands of its keys; returns the topic of the events."""
    topic, events, producer = (
        place.topic(f"commands-{name}", VALIDATORS),
        place.topic(f"events-{name}"),
        place.producer(),
    )
    place.publish(topic, commands, partition=lambda command: key(command) % VALIDATORS)
    partitions = [TopicPartition(topic, number) for number in range(VALIDATORS)]
    consumers, log = [place.consumer(partition) for partition in partitions], place.consumer()
    ends = log.end_offsets(partitions)
    while any(left := [ends[each] - taker.position(each) for taker, each in zip(consumers, partitions, strict=True)]):
        # both look before one of them decides: as it may be any time when they do not wait for each other
        happened = [message.decode(Act) for message in read_whole(log, events)]
        for consumer, number in zip(consumers, left, strict=True):
            shop = fold(happened)
            for message in take_exactly(consumer, min(AT_ONCE, number)):
                command = message.decode(Act)
                if shop.allows(command):
                    shop.take_in(command)
                    producer.send(events, value=encode(command))
            producer.flush()
    return events


def _describe(events: Sequence[Act], begun: Shop | None = None) -> tuple[int, int, int, int]:
    """Events, sold beyond the stock, left in the end, and taken out of carts again, by events from a state on."""
    taken_out = [event.deed for event in events].count(Deed.TAKE_OUT)
    return len(events), count_beyond(events, begun), sum(fold(events, begun).left), taken_out


def _keep_rows(session: Session, commands: Sequence[Act]) -> tuple[int, list[LoggedChange], int]:
    """Carry out the commands in tables; returns how many were refused, the changes in the log, and the stock."""
    session.execute(TABLES)
    session.cursor().executemany("INSERT INTO stock VALUES (%s, %s)", [(item, STOCK) for item in range(ITEMS)])
    slot = make_slot(session)
    refused = sum(not _carry_out(session, command) for command in commands)
    [[left]] = session.execute("SELECT sum(amount) FROM stock").fetchall()
    return refused, read_slot(session, slot), int(left)


def _carry_out(session: Session, command: Act) -> bool:
    """Carry out a command in one transaction, if the rows allow it; returns whether they do."""
    place = command.cart, command.item
    with session.transaction():
        if command.deed is Deed.PUT:
            take = "UPDATE stock SET amount = amount - 1 WHERE item = %s AND amount > 0"
            if not session.execute(take, (command.item,)).rowcount:
                return False
            session.execute("INSERT INTO carts VALUES (%s, %s)", place)
            return True
        if not session.execute("DELETE FROM carts WHERE cart = %s AND item = %s", place).rowcount:
            return False
        if command.deed is Deed.ORDER:
            session.execute("INSERT INTO orders VALUES (%s, %s)", place)
        else:
            session.execute("UPDATE stock SET amount = amount + 1 WHERE item = %s", (command.item,))
    return True


def count_gone(changes: Sequence[LoggedChange]) -> int:
    """Count the rows that went from carts without an order: taken out, or expired. The log does not say which."""
    went = [change.kind for change in changes if change.table == "public.carts"].count("DELETE")
    return went - [change.table for change in changes].count("public.orders")


def count_rows_beyond(changes: Sequence[LoggedChange]) -> int:
    """Count the items taken beyond the stock, at the worst moment of each: which the rows have forgotten."""
    worst = dict.fromkeys(map(str, range(ITEMS)), 0)
    for row in (change.row for change in changes if change.table == "public.stock"):
        worst[row["item"]] = min(worst[row["item"]], int(row["amount"]))
    return -sum(worst.values())


def _draw(logs: dict[str, list[Act]]) -> LogFigure:
    """Draw the events of one item in each log: its carts, and those for whom none was left."""
    rows = {}
    for name, events in logs.items():
        shop, cells = Shop(), []
        for offset, event in enumerate(events):
            shop.take_in(event)
            if event.item == DRAWN_ITEM and event.deed is Deed.PUT:
                tone = Tone.BAD if shop.left[DRAWN_ITEM] < 0 else Tone.GOOD
                cells.append(Cell(offset, f"cart {event.cart}", tone))
        rows[name] = cells
    return LogFigure(f"Who was given an item of which {STOCK} are there; red: none was left", rows)
