"""Two clients that write the same keys at once: in a forced order, in a race, and with failures halfway."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

from cdc.demo.race.schedule import Accident, FailingWrite, ForcedPair, RacedPair, Schedule, Step, Store
from cdc.demo.race.stores import Client, Stores

LANES = 8
"""So many pairs of clients race at once."""
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class TimedWrite:
    """A write as it happened: its time, and the value that each store held after it."""

    seconds: float
    step: Step
    value: str
    database: str
    index: str


def write_all(stores: Stores, plan: Schedule, advance: Callable[[int], None]) -> list[TimedWrite]:
    """Do all planned writes; returns those of the first pair, the book's figure."""
    timelines = [write_in_order(stores, pair) for pair in plan.forced]
    race_pairs(stores, plan.raced, advance)
    fail_writes(stores, plan.failing)
    return timelines[0]


def write_in_order(stores: Stores, pair: ForcedPair) -> list[TimedWrite]:
    """Let two clients, a thread each, do the pair's writes in its order; without an index, only the database's."""
    order = [step for step in pair.order if stores.index or step.store is Store.DATABASE]
    turns, began = _Turns(order), time.monotonic()
    writes: list[TimedWrite] = []

    def write(client: Client, step: Step) -> None:
        value = pair.values[step.client - 1]
        (client.write_database if step.store is Store.DATABASE else client.write_index)(pair.key, value)
        # within its turn, so that the other client cannot write before both stores are read
        writes.append(TimedWrite(time.monotonic() - began, step, value, *client.holds(pair.key)))

    def play(number: int) -> None:
        with Client(stores) as client:
            for step in [step for step in order if step.client == number]:
                turns.take(step, partial(write, client, step))

    _run_together([partial(play, 1), partial(play, 2)], turns.give_up)
    return writes


def race_pairs(stores: Stores, pairs: Sequence[RacedPair], advance: Callable[[int], None]) -> None:
    """Let two clients per lane race for every pair: they wait for each other before it, and never after."""
    # a barrier a lane: only the two clients of a pair wait for each other
    lanes = [(pairs[lane::LANES], threading.Barrier(2)) for lane in range(LANES)]

    def play(lane: Sequence[RacedPair], meeting: threading.Barrier, number: int) -> None:
        with Client(stores) as client:
            for pair in lane:
                _race(client, pair, meeting, number)
                # 0 for the first client, 1 for the second: each pair counts once
                advance(number - 1)

    def give_up() -> None:
        for _, meeting in lanes:
            meeting.abort()

    _run_together([partial(play, *lane, number) for lane in lanes for number in (1, 2)], give_up)


def _race(client: Client, pair: RacedPair, meeting: threading.Barrier, number: int) -> None:
    value, (first, second) = pair.values[number - 1], pair.pauses[number - 1]
    # both clients start from here; the pauses are planned, everything else is the machine's
    meeting.wait(PATIENCE_SECONDS)
    time.sleep(first)
    client.write_database(pair.key, value)
    time.sleep(second)
    client.write_index(pair.key, value)


def fail_writes(stores: Stores, accidents: Sequence[FailingWrite]) -> None:
    """Let one client write each key to both stores, then fail halfway through a second write."""
    with Client(stores) as client:
        for write in accidents:
            # both stores agree at first, so a later difference comes from the accident
            client.write_database(write.key, write.before)
            client.write_index(write.key, write.before)
            match write.accident:
                case Accident.INDEX_AWAY:
                    client.write_and_miss_the_index(write.key, write.after)
                case Accident.DIED_BEFORE_COMMIT:
                    client.write_and_die_before_commit(write.key, write.after)


class _Turns:
    """Makes several threads take their steps in one order."""

    def __init__(self, order: Sequence[Step]) -> None:
        self._left = list(order)
        self._changed = threading.Condition()
        self._given_up = False

    def take(self, step: Step, do: Callable[[], None]) -> None:
        """Wait for the step's turn, and do it. Raises BrokenBarrierError when its turn will not come."""
        with self._changed:
            is_my_turn = self._changed.wait_for(lambda: self._given_up or self._left[0] == step, PATIENCE_SECONDS)
            if self._given_up or not is_my_turn:
                raise threading.BrokenBarrierError
            do()
            # within the lock: the next step must not begin before this one has ended
            self._left.pop(0)
            self._changed.notify_all()

    def give_up(self) -> None:
        """End the waiting of all threads."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()


def _run_together(jobs: Sequence[Callable[[], None]], give_up: Callable[[], None]) -> None:
    """Run the jobs at once. If one fails, `give_up` ends the others, and its error is raised."""
    with ThreadPoolExecutor(len(jobs)) as threads:
        running: list[Future[None]] = [threads.submit(job) for job in jobs]
        done = wait(running, return_when=FIRST_EXCEPTION).done
        if any(job.exception() for job in done):
            # leaving the pool waits for the other jobs, and those wait for the failed one
            give_up()
    errors = [error for job in running if (error := job.exception())]
    # one job's failure breaks the barriers of the others: raise the cause, not a broken barrier
    causes = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    if errors:
        raise (causes or errors)[0]
