"""Commands become events once they are validated; the state is what events add up to, and they say why it is so.

Who validates what is written already, or beside another whose events it does not see yet, sells more than there is. One
validator for each item, to whom all its commands come in order, does not. Changes of rows say what, and not why.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from cdc.lab.book import FIRST, SECOND, SECOND_MODELS, Passage
from cdc.lab.derived.shop import STOCK, Act, Deed, Shop, count_beyond, fold, plan_commands
from cdc.lab.derived.shop_rows import count_gone, count_rows_beyond, keep_rows
from cdc.lab.derived.validator import Validator, read_acts
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure, PartitionCells
from cdc.lab.lesson import Findings, Lab
from cdc.lab.messages import find_partitions, read_whole
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

VALIDATORS: Final = 2
SNAPSHOT_AT: Final = 0.75
"""Which share of the events a snapshot has."""
DRAWN_ITEM: Final = 0
Key = Callable[[Act], int]


def run(place: Workplace) -> Findings:
    commands = plan_commands(place.random)
    place.say(f"{len(commands)} commands, believed at once, and decided by {VALIDATORS} validators in two ways")
    unchecked = _write(place, place.topic("unchecked"), commands)
    by_cart = _validate(place, "cart", commands, lambda command: command.cart)
    by_item = _validate(place, "item", commands, lambda command: command.item)
    believed, oversold, right = (read_acts(place.consumer(), topic) for topic in (unchecked, by_cart, by_item))
    snapshot, tail = _restore(place, by_item, right)
    mistake = next(event for event in reversed(right) if event.deed is Deed.ORDER)
    undone = read_acts(place.consumer(), _write(place, by_item, [replace(mistake, deed=Deed.UNDO)]))
    refused, changes, left = keep_rows(place.database("shop"), commands)
    taken, decided = _count_taken_out(right), len(commands) - len(right)
    rows = (
        ("events, checked by who reads them", 0, *_describe(believed)),
        ("two validators, by cart", len(commands) - len(oversold), *_describe(oversold)),
        ("two validators, by item", decided, *_describe(right)),
        ("the same, from a snapshot", decided, *_describe(tail, snapshot)),
        ("the same, an order undone", decided, *_describe(undone)),
        ("rows, and their changes", refused, len(changes), count_rows_beyond(changes), left, count_gone(changes)),
    )
    return Findings(
        columns=("way", "commands refused", "read", "sold beyond the stock", "left", "taken out again, as told"),
        rows=rows,
        sentence=f"Checked when they were read, events sold {rows[0][3]} too many, by two validators for the same items"
        f" {rows[1][3]}, by one for each item {rows[2][3]}; events say that {taken} were taken out of carts again,"
        f" changes of rows that {count_gone(changes)} went, and not why.",
        figure=_draw(believed, oversold, right),
    )


def _write(place: Workplace, topic: str, acts: Sequence[Act], key: Key = lambda _: 0) -> str:
    """Write commands or events, those of a key into one partition; returns the topic."""
    producer = place.producer()
    for act in acts:
        producer.send(topic, value=act.as_text(), partition=key(act) % VALIDATORS)
    producer.flush()
    return topic


def _validate(place: Workplace, name: str, commands: Sequence[Act], key: Key) -> str:
    """Let two validators decide at once, each on the commands of its keys; returns the topic of the events."""
    topic = _write(place, place.topic(f"commands-{name}", VALIDATORS), commands, key)
    events = place.topic(f"events-{name}")
    validators = [Validator(place, partition, events) for partition in find_partitions(place.consumer(), topic)]
    while not all(validator.is_done for validator in validators):
        # both look before one of them decides: as it may be any time when they do not wait for each other
        for validator in validators:
            validator.look()
        for validator in validators:
            validator.decide()
    return events


def _restore(place: Workplace, topic: str, events: Sequence[Act]) -> tuple[Shop, list[Act]]:
    """Write a snapshot of the state, and read it again, with the events behind it."""
    snapshots, at = place.topic("snapshots"), int(len(events) * SNAPSHOT_AT)
    producer, consumer = place.producer(), place.consumer()
    producer.send(snapshots, value=json.dumps({"offset": at, "shop": fold(events[:at]).as_text()}))
    producer.flush()
    [snapshot] = (json.loads(str(message.value)) for message in read_whole(consumer, snapshots))
    return Shop.from_text(snapshot["shop"]), read_acts(consumer, topic, snapshot["offset"])


def _describe(events: Sequence[Act], begun: Shop | None = None) -> tuple[int, int, int, int]:
    """Events, sold beyond the stock, left in the end, and taken out of carts again, by events from a state on."""
    return len(events), count_beyond(events, begun), sum(fold(events, begun).left), _count_taken_out(events)


def _count_taken_out(events: Sequence[Act]) -> int:
    return [event.deed for event in events].count(Deed.TAKE_OUT)


def _draw(believed: Sequence[Act], oversold: Sequence[Act], right: Sequence[Act]) -> LogFigure:
    """Draw the events of one item in each log: its carts, and those for whom none was left."""
    logs = {"checked when read": believed, "validators by cart": oversold, "validators by item": right}
    rows = []
    for name, events in logs.items():
        shop, cells = Shop(), []
        for offset, event in enumerate(events):
            shop.take_in(event)
            if event.item == DRAWN_ITEM and event.deed is Deed.PUT:
                tone = Tone.BAD if shop.left[DRAWN_ITEM] < 0 else Tone.GOOD
                cells.append(Cell(offset, f"cart {event.cart}", tone))
        rows.append(PartitionCells(name, tuple(cells)))
    return LogFigure(f"Who was given an item of which {STOCK} are there; red: none was left", tuple(rows))


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Event Sourcing", "Commands and events"),
        Passage(FIRST, "Event Sourcing", "Deriving current state from the event log"),
        Passage(SECOND, "State, Streams, and Immutability", "Advantages of immutable events"),
        Passage(SECOND_MODELS, "Event Sourcing and CQRS"),
    ),
    files=("cdc/core/model.py", "cdc/core/change.py", "sinks/lake/history/histories.py"),
    parts=(Service.KAFKA, Service.POSTGRES),
    run=run,
)
