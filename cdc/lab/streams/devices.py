"""Devices that report events to a topic: some with a wrong clock, one offline for a while."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from cdc.lab.messages import read_whole
from cdc.lab.streams.events import decode, encode
from cdc.lab.workplace import Workplace

WINDOW: Final = 0.6
"""Seconds of a window."""
WINDOWS: Final = 6
OF_WINDOW: Final = 8
"""Events of a device in each window."""
OFFLINE: Final = 3
"""For so many windows one device is offline."""
CLOCKS: Final = (0.0, 3600.0, -3600.0)
"""How wrong the clock of each device is, in seconds."""
BY_SERVER: Final = {"message.timestamp.type": "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class Device:
    """A device: how wrong its clock is; when its events happen; from when until when it is offline."""

    name: str
    clock: float
    happens: tuple[float, ...]
    offline: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """An event as a device sends it: when it happened, and when it was sent, both by the device's clock."""

    device: str
    number: int
    happened: float
    sent: float


@dataclass(frozen=True, slots=True)
class Received:
    """A report as the server has it. `truth`: when it really happened, which no server knows."""

    report: DeviceReport
    received: float
    truth: float


def measure_clocks(events: Sequence[Received]) -> dict[str, float]:
    """Measure how far each device's clock is behind the server's: received minus sent.

    That of its quickest report: whatever a report takes on its way is no fault of the clock.
    """
    behind: dict[str, float] = {}
    for each in events:
        device, measured = each.report.device, each.received - each.report.sent
        behind[device] = min(measured, behind.get(device, measured))
    return behind


def plan_devices(random: Random) -> list[Device]:
    """Plan when events happen, early in each window; one device is offline for some windows."""
    clocks = random.sample(CLOCKS, len(CLOCKS))
    unlucky, first = random.randrange(len(clocks)), random.randint(1, WINDOWS - OFFLINE - 1)
    devices = []
    for number, clock in enumerate(clocks):
        moments = (w * WINDOW + random.uniform(0.02, WINDOW / 4) for w in range(WINDOWS) for _ in range(OF_WINDOW))
        offline = (first * WINDOW, (first + OFFLINE) * WINDOW) if number == unlucky else None
        devices.append(Device(f"device {number + 1}", clock, tuple(sorted(moments)), offline))
    return devices


def let_report(place: Workplace, devices: Sequence[Device]) -> list[Received]:
    """Let all devices report; returns what the server has, in the order of its log. Time 0 is the beginning."""
    topic, producer = place.topic("stragglers", settings=BY_SERVER), place.producer()
    # now, not with the first event: the client asks where the topic is
    producer.partitions_for(topic)
    began = time.time()
    with ThreadPoolExecutor(len(devices)) as threads:
        for done in [threads.submit(_live, device, producer, topic, began) for device in devices]:
            done.result()
    producer.flush()
    truth = {device.name: device.happens for device in devices}
    messages = read_whole(place.consumer(), topic)
    reports = [(decode(message, DeviceReport), message.timestamp_ms / 1000 - began) for message in messages]
    return [Received(each, received, truth[each.device][each.number]) for each, received in reports]


def _live(device: Device, producer: Any, topic: str, began: float) -> None:
    """Report each event when it has happened, or keep it while offline."""
    kept: list[tuple[int, float]] = []
    goes, returns = device.offline or (0.0, 0.0)
    for number, at in enumerate(device.happens):
        # until then nothing happens to the device
        time.sleep(max(0.0, began + at - time.time()))
        kept.append((number, at + device.clock))
        if not goes <= at < returns:
            for kept_number, happened in kept:
                report = DeviceReport(device.name, kept_number, happened, time.time() - began + device.clock)
                producer.send(topic, value=encode(report))
            kept.clear()
