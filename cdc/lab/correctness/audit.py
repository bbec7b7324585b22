"""Late is not wrong, and a sum that is right may still be false: four copies of the same postings, looked at often.

A copy that is far behind shows balances that were true; one that is quick, and not atomic, shows some that never were.
A past that somebody changed is noticed by no count and no balance, but by a chain of digests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from kafka import TopicPartition

from cdc.lab.correctness import bank
from cdc.lab.correctness.bank import Balances, Posting
from cdc.lab.correctness.chained_history import BATCH_ROWS, ChainedHistory
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure
from cdc.lab.lesson import Findings
from cdc.lab.messages import Message, encode, take_exactly
from cdc.lab.workplace import Workplace

TRANSFERS: Final = 24

Looks = list[Balances]


@dataclass(frozen=True, slots=True)
class WatchedCopy:
    """The balances that readers saw of a copy; by how many postings it was behind at most; the word of its chain."""

    looks: Looks
    behind: int
    chain: str = "-"

    def judge(self, states: Looks) -> list[bool]:
        """Was each look true at some time? `states`: all that ever were."""
        return [look in states for look in self.looks]


def run(place: Workplace) -> Findings:
    postings = [posting for transfer in bank.plan_transfers(place.random, TRANSFERS) for posting in transfer.sides]
    states, swapped = replay(postings), plan_swap(place.random, postings)
    place.say(f"{TRANSFERS} transfers; later somebody swaps the amounts of rows {swapped[0]} and {swapped[1]}")
    found = {**_follow(place, postings), **_audit(place, postings, swapped)}
    rows = []
    for name, copy in found.items():
        end = "right" if copy.looks[-1] == states[-1] else "wrong"
        rows.append((name, copy.behind, len(copy.looks), copy.judge(states).count(False), end, copy.chain))
    (_, lag, looks, never, *_), (_, short, many, false, *_), _, (*_, past, end, chain), (*_, anew) = rows
    return Findings(
        columns=("copy", "postings behind", "looks", "never true", "balances in the end", "its chain"),
        rows=rows,
        sentence=f"A copy {lag} postings behind that takes whole transfers showed {never} false balances in {looks}"
        f" looks, one {short} behind that takes single postings {false} in {many}. With two amounts of the past swapped"
        f" {past} past states are false, and in the end the balances are {end}; but the chain {chain}, and"
        f" written anew it {anew}.",
        figure=_draw(found, states),
    )


def replay(postings: Sequence[Posting]) -> Looks:
    """The balances before the first transfer and after each: all that ever were true."""
    return [bank.post_all(postings[:end]) for end in range(0, len(postings) + 1, 2)]


def plan_swap(random: Random, postings: Sequence[Posting]) -> tuple[int, int]:
    """Choose two rows, by their sequence numbers: of one account, in different batches, with different amounts."""
    numbered = list(enumerate(postings, 1))
    return random.choice(
        [
            (one, other)
            for one, first in numbered
            for other, second in numbered
            if other - one > BATCH_ROWS and first.account == second.account and first.amount != second.amount
        ]
    )


def _follow(place: Workplace, postings: Sequence[Posting]) -> dict[str, WatchedCopy]:
    """Log the postings. One copy takes each as it comes; the other begins when all are there, and takes transfers."""
    topic, producer = place.topic("postings"), place.producer()
    consumer = place.consumer(TopicPartition(topic, 0))
    quick, late = _Follower(place, "quick"), _Follower(place, "late")
    for written, posting in enumerate(postings, 1):
        producer.send(topic, value=encode(posting)).get(60)
        quick.apply(take_exactly(consumer, 1), written)
    consumer.seek_to_beginning()
    for _ in range(TRANSFERS):
        late.apply(take_exactly(consumer, 2), len(postings))
    return {
        "late, whole transfers": WatchedCopy(late.looks, late.most_behind),
        "quick, single postings": WatchedCopy(quick.looks, quick.most_behind),
    }


class _Follower:
    """A copy of the accounts; a reader looks at all balances after each of its transactions."""

    def __init__(self, place: Workplace, name: str) -> None:
        dsn = bank.open_accounts(place, name)
        self._writer, self._reader = place.session(dsn), place.session(dsn)
        self.looks: Looks = []
        self.applied = self.most_behind = 0

    def apply(self, messages: Sequence[Message], written: int) -> None:
        with self._writer.transaction():
            for message in messages:
                bank.add(self._writer, message.decode(Posting))
        self.applied += len(messages)
        self.most_behind = max(self.most_behind, written - self.applied)
        self.looks.append(bank.read_balances(self._reader))


def _audit(place: Workplace, postings: Sequence[Posting], swapped: tuple[int, int]) -> dict[str, WatchedCopy]:
    """Keep a history, change it, and write its chain anew; after each, look at every past state and at the chain."""
    history = ChainedHistory(place.session(place.database("history")), postings)
    # elsewhere, where who changes the history cannot write
    kept = history.find_end()

    def look() -> WatchedCopy:
        broken = history.find_broken_batch()
        says = "fits" if history.find_end() == kept else "fits, with another end than was kept"
        return WatchedCopy(replay(history.read())[1:], 0, says if broken is None else f"breaks at batch {broken}")

    found = {"history": look()}
    history.swap(*swapped)
    found["history, two amounts swapped"] = look()
    history.chain_anew()
    found["the same, its chain written anew"] = look()
    return found


def _draw(found: dict[str, WatchedCopy], states: Looks) -> LogFigure:
    """Draw the sum of all accounts at each look."""
    rows = {}
    for name, copy in found.items():
        looks = zip(copy.looks, copy.judge(states), strict=True)
        cells = [
            Cell(n, str(sum(look.values())), Tone.GOOD if true else Tone.BAD) for n, (look, true) in enumerate(looks, 1)
        ]
        rows[name] = cells[:TRANSFERS]
    title = "The sum of all accounts at each look. Green: balances that once were; red: balances that never were"
    return LogFigure(title, rows)
