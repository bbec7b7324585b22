"""Consumer groups: all groups get every event, the members of one share them, and one member dies.

The members are processes; the one that dies is killed in the middle of a batch, before its commit.
"""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Final

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure, PartitionCells
from cdc.lab.lesson import Findings, Lab
from cdc.lab.messages import read_whole
from cdc.lab.temporary import keep_process
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

EVENTS: Final = 160
KEYS: Final = 12
PARTITIONS: Final = 4
DIES_OVER: Final = 33
DRAWN: Final = 22


@dataclass(frozen=True, slots=True)
class Receipt:
    """An event as a member got it."""

    member: str
    partition: int
    offset: int
    event: int


@dataclass(slots=True)
class Member:
    """A process of a group, and what it has printed so far. `partitions`: those that it has now."""

    name: str
    process: "subprocess.Popen[str]"
    partitions: list[int] = field(default_factory=list)
    handled: int = 0


class Group:
    """The members of one group, and the events of all of them in the order in which they came."""

    def __init__(self, place: Workplace, topic: str, name: str) -> None:
        self._place = place
        self._address = (place.parts.kafka_bootstrap, topic, place.group(name))
        self.members: list[Member] = []
        self.receipts: list[Receipt] = []

    @property
    def assigned(self) -> int:
        """How many partitions have a member."""
        return sum(len(member.partitions) for member in self.members)

    @property
    def is_done(self) -> bool:
        return len({each.event for each in list(self.receipts)}) == EVENTS

    def join(self, name: str, dies_over: int = 0) -> None:
        """Let another process join."""
        process = keep_process("cdc.lab.logs.member", *self._address, str(dies_over))
        member = Member(name, self._place.keep(process))
        self.members.append(member)
        Thread(target=self._listen, args=(member,), daemon=True).start()

    def _listen(self, member: Member) -> None:
        for line in member.process.stdout or ():
            said = json.loads(line)
            if "partitions" in said:
                member.partitions = said["partitions"]
            else:
                member.handled += 1
                self.receipts.append(Receipt(member.name, **said))
        # it has died, or is ended with the lab
        member.partitions = []


def run(place: Workplace) -> Findings:
    keys = [f"key {place.random.randrange(KEYS)}" for _ in range(EVENTS)]
    many, single = place.topic("groups", PARTITIONS), place.topic("groups-one")
    shared, lone = Group(place, many, "shared"), Group(place, single, "lone")
    shared.join("member 1", DIES_OVER)
    for name, group in (("member 2", shared), ("member 1", lone), ("member 2", lone)):
        group.join(name)
    wait_for(lambda: shared.assigned == PARTITIONS and all(m.partitions for m in shared.members), "two members")
    wait_for(lambda: lone.assigned == 1, "a member of the partition")
    _produce(place, (many, single), keys)
    place.say("member 1 dies; the broker notices after six seconds without a sign of life")
    wait_for(lambda: shared.is_done and lone.is_done, "every event")
    other = [Receipt("alone", m.partition, m.offset, int(str(m.value))) for m in read_whole(place.consumer(), many)]
    found = {
        "two members, four partitions, one dies": shared.receipts,
        "another group, of one": other,
        "two members, one partition": lone.receipts,
    }
    rows = [(name, *_count(receipts, keys)) for name, receipts in found.items()]
    (_, _, lost, twice, mixed, within), (_, _, lost_other, *_), (_, busy, *_) = rows
    return Findings(
        columns=("group", "members at work", "lost", "twice", "out of order", "out of order within a key"),
        rows=tuple(rows),
        sentence=f"Each group got all {EVENTS} events ({lost} and {lost_other} lost) although a member died, {twice} of"
        f" them twice; {mixed} came out of order, {within} within a key; with one partition only {busy} member works.",
        figure=_draw(shared.receipts, other),
    )


def _produce(place: Workplace, topics: Sequence[str], keys: Sequence[str]) -> None:
    producer: Any = place.producer()
    for number, key in enumerate(keys):
        for topic in topics:
            producer.send(topic, key=key, value=str(number))
    producer.flush()


def _count(receipts: Sequence[Receipt], keys: Sequence[str]) -> tuple[int, int, int, int, int]:
    """Members at work, events lost, events that came twice, out of order, and out of order within their key."""
    # what comes twice comes in its order the first time
    first = list(dict.fromkeys(each.event for each in receipts))
    of_key = [[event for event in first if keys[event] == key] for key in sorted(set(keys))]
    within = sum(map(count_late, of_key))
    busy = len({each.member for each in receipts})
    return busy, EVENTS - len(first), len(receipts) - len(first), count_late(first), within


def count_late(events: Sequence[int]) -> int:
    """Count those that come after a later one."""
    late, newest = 0, -1
    for event in events:
        late += event < newest
        newest = max(newest, event)
    return late


def _draw(shared: Sequence[Receipt], other: Sequence[Receipt]) -> LogFigure:
    """Draw the beginning of each partition: who had each event first, and which came twice."""
    takers: dict[tuple[int, int], list[str]] = {}
    for each in shared:
        takers.setdefault((each.partition, each.offset), []).append(each.member)
    tones = {"member 1": Tone.PLAIN, "member 2": Tone.GOOD}
    rows = []
    for number in range(PARTITIONS):
        offsets = sorted(each.offset for each in other if each.partition == number)[:DRAWN]
        had = [takers[number, offset] for offset in offsets]
        tone = [Tone.BAD if len(names) > 1 else tones[names[0]] for names in had]
        cells = [Cell(offset, names[0][-1], t) for offset, names, t in zip(offsets, had, tone, strict=True)]
        rows.append(PartitionCells(f"partition {number}", tuple(cells)))
    return LogFigure(
        "Which member of a group had which event first; red: handled again after member 1 died", tuple(rows)
    )


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Messaging Systems", "Multiple consumers"),
        Passage(FIRST, "Partitioned Logs", "Logs compared to traditional messaging"),
        Passage(SECOND, "Messaging Systems", "Multiple consumers"),
        Passage(SECOND, "Log-Based Message Brokers", "Logs compared to traditional messaging"),
    ),
    files=("cdc/log/names.py", "sinks/latest/follower.py"),
    parts=(Service.KAFKA,),
    run=run,
)
