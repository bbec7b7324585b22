"""A producer is faster than its consumer: events are dropped, buffered in memory or on disk, or the producer waits.

Datagrams are dropped when the socket's buffer is full; a queue in memory and a log buffer; TCP makes the sender wait.
"""

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from statistics import median
from threading import Thread
from typing import Final

from kafka import TopicPartition

from cdc.lab.figures.curves import Curves
from cdc.lab.lesson import Findings
from cdc.lab.messages import take
from cdc.lab.temporary import LOCALHOST
from cdc.lab.waiting import USUAL_SECONDS
from cdc.lab.workplace import Workplace

EVENTS: Final = 400
SIZE: Final = 512  # bytes of an event
BUFFER: Final = 4_096  # bytes that a socket may hold, as it is asked; the system takes some more
HANDLING_SECONDS: Final = 0.002

Send = Callable[[bytes], object]
Inbox = Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Flow:
    """When each event was ready to be sent, when the producer was rid of it, and when the consumer had handled it."""

    ready: tuple[float, ...]
    sent: tuple[float, ...]
    handled: dict[int, float]

    @property
    def lost(self) -> int:
        return len(self.sent) - len(self.handled)

    @property
    def latency(self) -> float:
        """Median of the seconds from an event's readiness until it was handled."""
        return median(at - self.ready[number] for number, at in self.handled.items())

    @property
    def producer_seconds(self) -> float:
        return self.sent[-1] - self.ready[0]

    @property
    def waiting(self) -> list[tuple[float, int]]:
        """How many events are on their way, at each moment when that changes; those that are lost never are."""
        came = [(self.sent[number], 1) for number in self.handled]
        went = [(max(at, self.sent[number]), -1) for number, at in self.handled.items()]
        total, found = 0, []
        for at, change in sorted([*came, *went], key=lambda each: (each[0], -each[1])):
            total += change
            found.append((at - self.ready[0], total))
        return found

    @property
    def most_waiting(self) -> int:
        return max(count for _, count in self.waiting)


def run(place: Workplace) -> Findings:
    place.say(f"{EVENTS} events of {SIZE} bytes; the consumer needs {HANDLING_SECONDS * 1000:.0f} ms or more for each")
    found = {
        "drop (UDP)": flow(*_open_datagrams(place)),
        "buffer in memory": flow(*_open_queue()),
        "buffer on disk (log)": flow(*_open_log(place)),
        "block (TCP)": flow(*_open_stream(place)),
    }
    drop, memory, log, block = found.values()
    return Findings(
        columns=("way", "events", "lost", "most waiting", "median latency ms", "producer took ms"),
        rows=[
            (name, EVENTS, f.lost, f.most_waiting, round(f.latency * 1000), round(f.producer_seconds * 1000))
            for name, f in found.items()
        ],
        sentence=f"Dropping lost {drop.lost} events; buffers lost {memory.lost} and {log.lost}, and grew to"
        f" {memory.most_waiting} and {log.most_waiting}; blocking lost {block.lost} with {block.most_waiting} waiting,"
        f" and took the producer {block.producer_seconds / memory.producer_seconds:,.0f} times as long as memory.",
        figure=Curves(
            "How many events wait between a fast producer and a slow consumer",
            {name: each.waiting for name, each in found.items()},
            "s",
            "events waiting",
        ),
    )


def flow(send: Send, inbox: Inbox) -> Flow:
    """Let a thread produce as fast as it may, and consume slowly here until the last event, or until nothing comes."""
    ready, sent, handled = list[float](), list[float](), dict[int, float]()

    def produce() -> None:
        for number in range(EVENTS):
            ready.append(time.monotonic())
            send(str(number).encode().ljust(SIZE, b"."))
            sent.append(time.monotonic())

    producer = Thread(target=produce, daemon=True)
    producer.start()
    for event in inbox:
        # stands for the consumer's work on an event
        time.sleep(HANDLING_SECONDS)
        handled[int(event.rstrip(b"."))] = time.monotonic()
        if len(handled) == EVENTS:
            break
    producer.join()
    return Flow(tuple(ready), tuple(sent), handled)


def _open_datagrams(place: Workplace) -> tuple[Send, Inbox]:
    receiver, sender = (place.keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2))
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    receiver.bind((LOCALHOST, 0))
    # an event that has not come until then has been dropped: a datagram has no way but memory
    receiver.settimeout(1.0)

    def receive() -> Inbox:
        while True:
            try:
                yield receiver.recv(SIZE)
            except TimeoutError:
                return

    return lambda event: sender.sendto(event, receiver.getsockname()), receive()


def _open_queue() -> tuple[Send, Inbox]:
    queue: SimpleQueue[bytes] = SimpleQueue()
    return queue.put, iter(partial(queue.get, timeout=USUAL_SECONDS), b"")


def _open_log(place: Workplace) -> tuple[Send, Inbox]:
    topic, producer = place.topic("backpressure"), place.producer()
    consumer = place.consumer(TopicPartition(topic, 0))
    # now, not with the first event: the client asks where the topic is
    producer.partitions_for(topic)

    def receive() -> Inbox:
        while True:
            for message in take(consumer):
                yield str(message.value).encode()

    # the broker answers later: a producer of Kafka sends on meanwhile
    return lambda event: producer.send(topic, value=event), receive()


def _open_stream(place: Workplace) -> tuple[Send, Inbox]:
    listener, sender = (place.keep(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(2))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    listener.bind((LOCALHOST, 0))
    listener.listen()
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    sender.connect(listener.getsockname())
    receiver = place.keep(listener.accept()[0])
    return sender.sendall, iter(lambda: receiver.recv(SIZE, socket.MSG_WAITALL), b"")
