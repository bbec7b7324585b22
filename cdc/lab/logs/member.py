"""A member of a consumer group as a process of its own, so that it can die: `python -m cdc.lab.logs.member`.

It prints lines of JSON: its partitions when they change, and every event when it has handled it.
"""

import json
import logging
import os
import signal
import sys
import time
from contextlib import closing, suppress
from threading import Event, Thread
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.errors import CommitFailedError, RebalanceInProgressError

from cdc.lab.messages import find_partitions, take
from cdc.lab.temporary import PATIENCE_MS

HANDLING_SECONDS: Final = 0.002
POLL_MS: Final = 3_000
"""Longer than it takes to join: kafka-python 3.0 forgets a join that its poll does not wait for."""
SESSION_MS: Final = 6_000
"""How long the broker waits for a sign of life; the shortest that it allows."""


def main(bootstrap: str, topic: str, group: str, dies_over: int) -> None:
    """Handle events until stdin ends, then leave the group; with `dies_over`, die over that event or a later one."""
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        bootstrap_timeout_ms=PATIENCE_MS,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=1_000,
        max_poll_records=25,
    )
    with closing(consumer):
        # a member that joins before it has heard of the topic gets no partition of it
        find_partitions(consumer, topic)
        consumer.subscribe([topic])
        _handle_all(consumer, dies_over, _await_end())


def _await_end() -> Event:
    """Begin to wait for the end of stdin: it also comes when the lab is killed."""
    ended = Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    Thread(target=wait, daemon=True).start()
    return ended


def _handle_all(consumer: Any, dies_over: int, ended: Event) -> None:
    assigned: set[int] = set()
    handled = 0
    while not ended.is_set():
        messages = take(consumer, wait_ms=POLL_MS)
        partitions = {place.partition for place in consumer.assignment()}
        if partitions != assigned:
            assigned = partitions
            _print({"partitions": sorted(assigned)})
        for message in messages:
            handled += 1
            # not at the first ones of a batch: some others are handled and not committed yet
            if dies_over and handled >= dies_over and message not in messages[:3]:
                os.kill(os.getpid(), signal.SIGKILL)
            # stands for what a member does with an event
            time.sleep(HANDLING_SECONDS)
            _print({"partition": message.partition, "offset": message.offset, "event": int(str(message.value))})
        if messages:
            _commit(consumer)


def _commit(consumer: Any) -> None:
    # while the group shares its partitions anew, nothing is committed: whoever has them then gets these events again
    with suppress(RebalanceInProgressError, CommitFailedError):
        consumer.commit()


def _print(line: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(line)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
