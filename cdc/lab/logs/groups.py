"""Consumer groups: all groups get every event, the members of one share them, and one member dies.

The members are processes; the one that dies is killed in the middle of a batch, before its commit.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from kafka.errors import CommitFailedError, RebalanceInProgressError

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure
from cdc.lab.lesson import Findings
from cdc.lab.lives import Life, Worker, WorkerProcesses
from cdc.lab.messages import Message, read_whole, take
from cdc.lab.temporary import open_consumer
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace

EVENTS: Final = 160
KEYS: Final = 12
PARTITIONS: Final = 4
DIES_OVER: Final = 33
DEATH: Final = "in the middle of a batch"
DRAWN: Final = 22
HANDLING_SECONDS: Final = 0.002
POLL_MS: Final = 3_000  # longer than it takes to join: kafka-python 3.0 forgets a join that its poll does not wait for
SESSION: Final = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000, "max_poll_records": 25}
"""The broker waits so long for a sign of life; it is the shortest that it allows."""

Receipt = tuple[str, int]
"""A member, and an event that it got."""


def be_member(life: Life, *, bootstrap: str, topic: str, group: str) -> None:
    """Handle events, and tell of each; tell of the member's partitions when they change. Leave when all is over."""
    with open_consumer(bootstrap, group_id=group, **SESSION) as consumer:
        # a member that joins before it has heard of the topic gets no partition of it
        wait_for(lambda: bool(consumer.partitions_for_topic(topic)), f"the partitions of {topic}")
        consumer.subscribe([topic])
        assigned, handled = set[int](), 0
        while not life.is_over.is_set():
            messages = take(consumer, wait_ms=POLL_MS)
            if assigned != (now := {place.partition for place in consumer.assignment()}):
                assigned = now
                life.report(partitions=len(assigned))
            for number, message in enumerate(messages):
                handled += 1
                # not at the first ones of a batch: some others are handled and not committed yet
                if handled >= DIES_OVER and number > 2:
                    life.pass_point(DEATH)
                # stands for the work on an event
                time.sleep(HANDLING_SECONDS)
                life.report(event=message.decode(int))
            # while the group shares its partitions anew, none commits: these events are given out again
            with suppress(RebalanceInProgressError, CommitFailedError):
                consumer.commit()


def run(place: Workplace) -> Findings:
    keys = [f"key {place.random.randrange(KEYS)}" for _ in range(EVENTS)]
    many, single = place.topic("groups", PARTITIONS), place.topic("groups-one")
    shared, lone = _start_members(place, many, "shared", (DEATH,)), _start_members(place, single, "lone")
    wait_for(lambda: all(_count_partitions(shared)) and sum(_count_partitions(shared)) == PARTITIONS, "two members")
    wait_for(lambda: sum(_count_partitions(lone)) == 1, "a member of the partition")
    for topic in (many, single):
        place.publish(topic, range(EVENTS), key=keys.__getitem__)
    place.say("member 1 dies; the broker notices after six seconds without a sign of life")
    for group in (shared, lone):
        wait_for(partial(_has_all, group), "every event")
    whole = read_whole(place.consumer(), many)
    found = {
        "two members, four partitions, one dies": _list_receipts(shared),
        "another group, of one": [("alone", message.decode(int)) for message in whole],
        "two members, one partition": _list_receipts(lone),
    }
    rows = [(name, *_count(receipts, keys)) for name, receipts in found.items()]
    (_, _, lost, twice, mixed, within), (_, _, lost_other, *_), (_, busy, *_) = rows
    return Findings(
        columns=("group", "members at work", "lost", "twice", "out of order", "out of order within a key"),
        rows=rows,
        sentence=f"Each group got all {EVENTS} events ({lost} and {lost_other} lost) although a member died, {twice} of"
        f" them twice; {mixed} came out of order, {within} within a key; with one partition only {busy} member works.",
        figure=_draw(_list_receipts(shared), whole),
    )


def _start_members(place: Workplace, topic: str, group: str, deaths: tuple[str, ...] = ()) -> WorkerProcesses:
    """Start two members, of which the first dies as planned."""
    bootstrap, name = place.bootstrap, place.group(group)
    work = partial(be_member, bootstrap=bootstrap, topic=topic, group=name)
    return WorkerProcesses(place, [Worker("member 1", work, deaths, comes_back=False), Worker("member 2", work)])


def _count_partitions(group: WorkerProcesses) -> list[int]:
    """How many partitions each member has now."""
    newest = {each.worker: each.said["partitions"] for each in [*group.reports] if "partitions" in each.said}
    return [newest.get("member 1", 0), newest.get("member 2", 0)]


def _list_receipts(group: WorkerProcesses) -> list[Receipt]:
    return [(each.worker, each.said["event"]) for each in [*group.reports] if "event" in each.said]


def _has_all(group: WorkerProcesses) -> bool:
    return len({event for _, event in _list_receipts(group)}) == EVENTS


def _count(receipts: Sequence[Receipt], keys: Sequence[str]) -> tuple[int, int, int, int, int]:
    """Members at work, events lost, events that came twice, out of order, and out of order within their key."""
    # an event that comes twice comes in its order the first time
    first = list(dict.fromkeys(event for _, event in receipts))
    within = sum(count_late([event for event in first if keys[event] == key]) for key in sorted(set(keys)))
    busy = len({member for member, _ in receipts})
    return busy, EVENTS - len(first), len(receipts) - len(first), count_late(first), within


def count_late(events: Sequence[int]) -> int:
    """Count those that come after a later one."""
    late, newest = 0, -1
    for event in events:
        late += event < newest
        newest = max(newest, event)
    return late


def _draw(shared: Sequence[Receipt], whole: Sequence[Message]) -> LogFigure:
    """Draw the beginning of each partition: who had each event first, and which came twice."""
    takers: dict[int, list[str]] = {}
    for member, event in shared:
        takers.setdefault(event, []).append(member)
    tones = {"member 1": Tone.PLAIN, "member 2": Tone.GOOD}
    partitions: dict[str, list[Cell]] = {f"partition {number}": [] for number in range(PARTITIONS)}
    for message in sorted(whole, key=lambda message: message.offset):
        first, *again = takers[message.decode(int)]
        cell = Cell(message.offset, first[-1], Tone.BAD if again else tones[first])
        partitions[f"partition {message.partition}"].append(cell)
    return LogFigure(
        "Which member of a group had which event first; red: handled again after member 1 died",
        {name: cells[:DRAWN] for name, cells in partitions.items()},
    )
