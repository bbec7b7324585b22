"""Devices report events; one was offline for a while, two have a wrong clock, and windows are told before all has come.

Three timestamps undo a wrong clock: when it happened and when it was sent, by the device, when it was received, by the
server. A late event is ignored and counted, or it corrects what was told of its window.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Arrow, Span, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.streams.devices import (
    OF_WINDOW,
    WINDOW,
    WINDOWS,
    Device,
    Received,
    let_report,
    measure_clocks,
    plan_devices,
)
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

GRACE: Final = 0.3
"""So long after its end a window waits for late events; then its number is told."""

TimeOf = Callable[[Received], float]


@dataclass(frozen=True, slots=True)
class Tally:
    """What was told of windows: the last number of each, events ignored, and how often a window was told again."""

    counts: Counter[int]
    ignored: int
    corrections: int


def run(place: Workplace) -> Findings:
    devices = plan_devices(place.random)
    place.say(f"{len(devices)} devices report for {WINDOW * WINDOWS:.0f} s; one is offline for a while")
    events = let_report(place, devices)
    truth = Counter(find_window(each.truth) for each in events)
    behind = measure_clocks(events)

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
        tally = tell(events, time_of, corrects=corrects)
        right = sum(tally.counts[window] == number for window, number in truth.items())
        rows.append((name, len(events), wrong, tally.ignored, tally.corrections, right))
    device, server, ignoring, correcting = rows
    return Findings(
        columns=(
            "way",
            "events",
            "in a wrong window",
            "ignored",
            "results told again",
            f"right of {len(truth)} windows",
        ),
        rows=tuple(rows),
        sentence=f"In a wrong window were {device[2]} of {len(events)} events by the devices' clocks, {server[2]} by"
        f" the server's, {correcting[2]} by three timestamps. {ignoring[3]} came after their window was told:"
        f" ignored, {ignoring[5]} of {len(truth)} windows are right; as corrections, {correcting[5]}.",
        figure=_draw(devices, events, truth),
    )


def find_window(at: float) -> int:
    """The number of the window of a time."""
    return int(at // WINDOW)


def is_late(window: int, received: float) -> bool:
    """Did an event come when its window was told already?"""
    return received > (window + 1) * WINDOW + GRACE


def tell(events: Sequence[Received], time_of: TimeOf, *, corrects: bool) -> Tally:
    """Count events in windows as they come. A late one is ignored, or its window is told again."""
    in_time = Counter[int]()
    late = Counter[int]()
    for each in events:
        window = find_window(time_of(each))
        (late if is_late(window, each.received) else in_time)[window] += 1
    if corrects:
        return Tally(in_time + late, 0, late.total())
    return Tally(in_time, late.total(), 0)


def _draw(devices: Sequence[Device], events: Sequence[Received], truth: Counter[int]) -> Timeline:
    """Draw one event of each device and window: when it really happened, and when it came."""
    lanes = {each.name: f"{each.name}, clock {each.clock / 3600:+.0f} h" for each in devices}
    arrows = [
        Arrow(lanes[each.report.device], each.truth, "server", each.received, "", _choose_tone(each))
        for each in events
        if each.report.number % OF_WINDOW == 0
    ]
    windows = [
        Span("windows", number * WINDOW, (number + 1) * WINDOW, f"{count} happened", Tone.QUIET)
        for number, count in sorted(truth.items())
    ]
    offline = [Span(lanes[each.name], *each.offline, "offline", Tone.QUIET) for each in devices if each.offline]
    title = "Events of three devices, and when the server has them; red: after their window was told"
    spans, lane_names = (*windows, *offline), (*lanes.values(), "server", "windows")
    return Timeline(title, lane_names, spans=spans, arrows=tuple(arrows), unit="s")


def _choose_tone(each: Received) -> Tone:
    return Tone.BAD if is_late(find_window(each.truth), each.received) else Tone.PLAIN


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Reasoning About Time", "Knowing when you're ready"),
        Passage(FIRST, "Reasoning About Time", "Whose clock are you using, anyway?"),
        Passage(SECOND, "Reasoning About Time", "Handling straggler events"),
        Passage(SECOND, "Reasoning About Time", "Whose clock are you using, anyway?"),
    ),
    files=("cdc/views/statement/final_windows.py", "cdc/views/TIME.md"),
    parts=(Service.KAFKA,),
    run=run,
)
