"""Tumbling, hopping, sliding and session windows over the same clicks: a limit of clicks a minute, and who is over it.

Each type asks another question. A burst across the edge of two windows is in neither of them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from random import Random
from typing import Final, NamedTuple

from cdc.core.text.plural import format_count
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.windows import Window, WindowFigure
from cdc.lab.lesson import Findings
from cdc.lab.workplace import Workplace

MINUTE: Final = 60.0
HOP: Final = 30.0
PAUSE: Final = 25.0  # a session ends when there is no click for so long
MOST: Final = 10  # more clicks than these within a minute are a robot's
MINUTES: Final = 6

Bounds = tuple[float, float]
"""From the first up to, and without, the second."""


class Click(NamedTuple):
    """A click, and its second."""

    visitor: str
    at: float


def tumble(times: Sequence[float]) -> Iterator[Bounds]:
    """One window after the other."""
    return hop(times, MINUTE)


def hop(times: Sequence[float], every: float = HOP) -> Iterator[Bounds]:
    """A window of a minute begins at each hop."""
    last = int(times[-1] // every)
    return ((number * every, number * every + MINUTE) for number in range(last + 1))


def slide(times: Sequence[float]) -> Iterator[Bounds]:
    """A window of a minute begins with each click: no other has more of them."""
    return ((at, at + MINUTE) for at in times)


def split_sessions(times: Sequence[float]) -> Iterator[Bounds]:
    """A window lasts until a pause."""
    start = end = times[0]
    for at in times[1:]:
        if at - end >= PAUSE:
            yield start, end + PAUSE
            start = at
        end = at
    yield start, end + PAUSE


TYPES: Final[dict[str, Callable[[Sequence[float]], Iterator[Bounds]]]] = {
    "tumbling, a minute": tumble,
    "hopping, a minute every 30 s": hop,
    "sliding, a minute": slide,
    "session, until 25 s of pause": split_sessions,
}


def run(place: Workplace) -> Findings:
    topic = place.topic("windows", partitions=2)
    place.publish(topic, plan_clicks(place.random), key=lambda click: click.visitor)
    read = by_visitor(place.read(topic, Click))
    robots = {visitor for visitor, times in read.items() if is_over(times)}
    rows = []
    for name, assign in TYPES.items():
        counts = {visitor: [count(times, bounds) for bounds in assign(times)] for visitor, times in read.items()}
        told = {visitor for visitor, numbers in counts.items() if max(numbers) > MOST}
        made = [number for numbers in counts.values() for number in numbers if number]
        rows.append((name, len(made), max(made), len(told), len(robots - told), len(told - robots)))
    (tumbling, hopping, sliding, sessions), false = (row[4] for row in rows), rows[-1][5]
    return Findings(
        columns=("windows", "with clicks", "most clicks in one", "over the limit", "robots missed", "false alarms"),
        rows=rows,
        sentence=f"Of {len(robots)} robots with more than {MOST} clicks within a minute tumbling windows missed"
        f" {tumbling}, hopping ones {hopping}, sliding ones {sliding}; sessions missed"
        f" {sessions} that paused, and blamed {format_count(false, 'visitor')} for staying long.",
        figure=_draw(read["robot across a minute"]),
    )


def plan_clicks(random: Random) -> list[Click]:
    """Plan robots within a minute, across its end, and across the ends of hops; and people, of whom one is patient."""
    start = MINUTE * random.randint(1, MINUTES - 3)
    bursts: dict[str, list[tuple[float, float, int]]] = {
        "robot within a minute": [(start + random.uniform(5, 20), 30, MOST + 3)],
        "robot across a minute": [(start + MINUTE - random.uniform(11, 14), 25, MOST + 3)],
        # half of its clicks before the window that has the others begins, half after the one that has the first ends
        "robot across a hop": [
            (start + HOP - random.uniform(8, 12), 4, MOST // 2 + 2),
            (start + MINUTE + random.uniform(4, 8), 4, MOST // 2 + 2),
        ],
        "patient visitor": [(random.uniform(0, MINUTE), PAUSE / 2 * 16, 17)],
        "visitor": [(random.uniform(0, MINUTE * 4), MINUTE, MOST // 2)],
    }
    clicks = [
        Click(visitor, round(begin + length * number / (most - 1), 2))
        for visitor, parts in bursts.items()
        for begin, length, most in parts
        for number in range(most)
    ]
    return sorted(clicks, key=lambda click: click.at)


def by_visitor(clicks: Sequence[Click]) -> dict[str, list[float]]:
    return {name: [at for _, at in own] for name, own in groupby(sorted(clicks), key=lambda click: click.visitor)}


def count(times: Sequence[float], bounds: Bounds) -> int:
    return sum(bounds[0] <= at < bounds[1] for at in times)


def is_over(times: Sequence[float]) -> bool:
    """Are there more than `MOST` clicks within a minute? Looks at every choice of so many in a row."""
    return any(last - first < MINUTE for first, last in zip(times, times[MOST:], strict=False))


def _draw(times: Sequence[float]) -> WindowFigure:
    """Draw the windows over one visitor's clicks."""
    first = times[0] // MINUTE * MINUTE
    kinds = {}
    for name, assign in TYPES.items():
        counted = [(start - first, end - first, count(times, (start, end))) for start, end in assign(times)]
        kinds[name] = [
            Window(start, end, str(n), Tone.BAD if n > MOST else Tone.PLAIN) for start, end, n in counted if n
        ]
    title = f"{len(times)} clicks across the end of a minute; red: more than {MOST}"
    return WindowFigure(title, [at - first for at in times], kinds)
