"""Two clients that write the same keys at the same time: in a forced order, as it comes, and failing halfway."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

from cdc.demo.race.schedule import Accident, Failing, Forced, Raced, Step, Store
from cdc.demo.race.stores import Client, Stores

LANES = 8
"""So many pairs race at once."""
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Moment:
    """A write as it happened: when it was done, and what both stores held then."""

    seconds: float
    step: Step
    value: str
    database: str
    index: str


def in_order(stores: Stores, pair: Forced) -> list[Moment]:
    """Let the two clients, each a thread, do the pair's writes in its order; where there is no index, without those."""
    order = [step for step in pair.order if stores.index or step.store is Store.DATABASE]
    turns, began = _Turns(order), time.monotonic()
    moments: list[Moment] = []

    def write(client: Client, step: Step) -> None:
        value = pair.values[step.client - 1]
        (client.write_database if step.store is Store.DATABASE else client.write_index)(pair.key, value)
        # within its turn: the other client cannot write before both stores have been read
        moments.append(Moment(time.monotonic() - began, step, value, *client.holds(pair.key)))

    def play(number: int) -> None:
        with Client(stores) as client:
            for step in [each for each in order if each.client == number]:
                turns.take(step, partial(write, client, step))

    _together([partial(play, 1), partial(play, 2)], turns.give_up)
    return moments


def at_once(stores: Stores, pairs: Sequence[Raced], advance: Callable[[int], None]) -> None:
    """Let two clients a lane race for every pair: they meet before it, and nothing holds them after that."""
    lanes = [(pairs[lane::LANES], threading.Barrier(2)) for lane in range(LANES)]

    def play(lane: Sequence[Raced], meeting: threading.Barrier, number: int) -> None:
        with Client(stores) as client:
            for pair in lane:
                _race(client, pair, meeting, number)
                # the second of the two counts for the pair
                advance(number - 1)

    def give_up() -> None:
        for _, meeting in lanes:
            meeting.abort()

    _together([partial(play, *lane, number) for lane in lanes for number in (1, 2)], give_up)


def _race(client: Client, pair: Raced, meeting: threading.Barrier, number: int) -> None:
    value, (first, second) = pair.values[number - 1], pair.pauses[number - 1]
    meeting.wait(PATIENCE_SECONDS)
    time.sleep(first)
    client.write_database(pair.key, value)
    time.sleep(second)
    client.write_index(pair.key, value)


def failing(stores: Stores, accidents: Sequence[Failing]) -> None:
    """Let one client write each key to both stores, and then fail halfway with another value."""
    with Client(stores) as client:
        for each in accidents:
            client.write_database(each.key, each.before)
            client.write_index(each.key, each.before)
            match each.accident:
                case Accident.INDEX_AWAY:
                    client.write_and_miss_the_index(each.key, each.after)
                case Accident.DIED_BEFORE_COMMIT:
                    client.write_and_die_before_commit(each.key, each.after)


class _Turns:
    """Lets several threads take steps in one order only."""

    def __init__(self, order: Sequence[Step]) -> None:
        self._left = list(order)
        self._changed = threading.Condition()
        self._given_up = False

    def take(self, step: Step, do: Callable[[], None]) -> None:
        """Wait for the step's turn, do it, and let the next one come; BrokenBarrierError when that cannot come."""
        with self._changed:
            mine = self._changed.wait_for(lambda: self._given_up or self._left[0] == step, PATIENCE_SECONDS)
            if self._given_up or not mine:
                raise threading.BrokenBarrierError
            do()
            self._left.pop(0)
            self._changed.notify_all()

    def give_up(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()


def _together(jobs: Sequence[Callable[[], None]], give_up: Callable[[], None]) -> None:
    """Run the jobs at once; when one fails the others are told, and its error is raised."""
    with ThreadPoolExecutor(len(jobs)) as threads:
        running: list[Future[None]] = [threads.submit(job) for job in jobs]
        done = wait(running, return_when=FIRST_EXCEPTION).done
        if any(each.exception() for each in done):
            # leaving the pool waits for the others, who wait for the one that failed
            give_up()
    errors = [error for each in running if (error := each.exception())]
    # a broken barrier is what the failure of one does to the others: the cause is raised, if there is one
    causes = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    if errors:
        raise (causes or errors)[0]
