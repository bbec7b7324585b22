"""Devices report events; one was offline for a while, two have a wrong clock, and windows are told before all has come.

Three timestamps undo a wrong clock: when it happened and when it was sent, by the device, when it was received, by the
server. A late event is ignored and counted, or it corrects the number of its window.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Arrow, Span, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.messages import encode, read_whole
from cdc.lab.waiting import run_at_once
from cdc.lab.workplace import Workplace

GRACE: Final = 0.3  # so long after its end a window waits for late events; then its number is told
WINDOW: Final = 0.6  # seconds
WINDOWS: Final = 6
OF_WINDOW: Final = 8  # events of a device in each window
OFFLINE: Final = 3  # windows for which one device is offline
CLOCKS: Final = (0.0, 3600.0, -3600.0)  # how wrong the clock of each device is, in seconds
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


TimeOf = Callable[[Received], float]


def measure_clocks(events: Sequence[Received]) -> dict[str, float]:
    """Measure how far each device's clock is behind the server's: received minus sent.

    That of its quickest report: the time that a report takes on its way is no fault of the clock.
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
    """Let all devices report; returns the reports in the order of the server's log. Time 0 is the beginning."""
    topic, producer = place.topic("stragglers", settings=BY_SERVER), place.producer()
    # now, not with the first event: the client asks where the topic is
    producer.partitions_for(topic)
    began = time.time()
    run_at_once([partial(_live, device, producer, topic, began) for device in devices])
    producer.flush()
    truth = {device.name: device.happens for device in devices}
    found = []
    for message in read_whole(place.consumer(), topic):
        report = message.decode(DeviceReport)
        found.append(Received(report, message.timestamp_ms / 1000 - began, truth[report.device][report.number]))
    return found


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


def run(place: Workplace) -> Findings:
    devices = plan_devices(place.random)
    place.say(f"{len(devices)} devices report for {WINDOW * WINDOWS:.0f} s; one is offline for a while")
    events = let_report(place, devices)
    truth, behind = Counter(find_window(each.truth) for each in events), measure_clocks(events)

    def correct(each: Received) -> float:
        return each.report.happened + behind[each.report.device]

    ways: dict[str, tuple[TimeOf, bool]] = {
        "device's clock, late ones ignored": (lambda each: each.report.happened, False),
        "server's clock": (lambda each: each.received, False),
        "three timestamps, late ones ignored": (correct, False),
        "three timestamps, late ones correct": (correct, True),
    }
    rows = []
    for name, (time_of, corrects) in ways.items():
        wrong = sum(find_window(time_of(each)) != find_window(each.truth) for each in events)
        counts, ignored, corrections = tell(events, time_of, corrects=corrects)
        right = sum(counts[window] == number for window, number in truth.items())
        rows.append((name, len(events), wrong, ignored, corrections, right))
    device, server, ignoring, correcting = rows
    right_of = f"right of {len(truth)} windows"
    return Findings(
        columns=("way", "events", "in a wrong window", "ignored", "results told again", right_of),
        rows=rows,
        sentence=f"In a wrong window were {device[2]} of {len(events)} events by the devices' clocks, {server[2]} by"
        f" the server's, {correcting[2]} by three timestamps. {ignoring[3]} came after their window was told:"
        f" ignored, {ignoring[5]} of {len(truth)} windows are right; as corrections, {correcting[5]}.",
        figure=_draw(devices, events, truth),
    )


def find_window(at: float) -> int:
    return int(at // WINDOW)


def is_late(window: int, received: float) -> bool:
    """Did an event come when its window was told already?"""
    return received > (window + 1) * WINDOW + GRACE


def tell(events: Sequence[Received], time_of: TimeOf, *, corrects: bool) -> tuple[Counter[int], int, int]:
    """Count events in windows as they come. A late one is ignored, or its window is told again.

    Returns the last number of each window, events ignored, and how often a window was told again.
    """
    in_time, late = Counter[int](), Counter[int]()
    for each in events:
        window = find_window(time_of(each))
        (late if is_late(window, each.received) else in_time)[window] += 1
    return (in_time + late, 0, late.total()) if corrects else (in_time, late.total(), 0)


def _draw(devices: Sequence[Device], events: Sequence[Received], truth: Counter[int]) -> Timeline:
    """Draw one event of each device and window: when it really happened, and when it came."""
    lanes = {each.name: f"{each.name}, clock {each.clock / 3600:+.0f} h" for each in devices}
    arrows = []
    for each in events:
        if each.report.number % OF_WINDOW == 0:
            tone = Tone.BAD if is_late(find_window(each.truth), each.received) else Tone.PLAIN
            arrows.append(Arrow(lanes[each.report.device], each.truth, "server", each.received, "", tone))
    windows = [
        Span("windows", number * WINDOW, (number + 1) * WINDOW, f"{count} happened", Tone.QUIET)
        for number, count in sorted(truth.items())
    ]
    offline = [Span(lanes[each.name], *each.offline, "offline", Tone.QUIET) for each in devices if each.offline]
    title = "Events of three devices, and when the server has them; red: after their window was told"
    return Timeline(title, [*lanes.values(), "server", "windows"], (), [*windows, *offline], arrows, "s")
