"""How many different visitors, and which pages have the most visits? Exact answers keep every visitor and every page.

A small sample cannot tell how many are different, and numbers of partitions cannot be added. Sketches keep kilobytes,
whatever comes, are a few per cent wrong, and can be merged.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.figures.curves import Curve, Curves
from cdc.lab.lesson import Findings, Lab
from cdc.lab.messages import Message, read_whole
from cdc.lab.streams.summaries import TOP, Exact, Sample, Sketches, Visit, count_visitors, list_top, merge_pages
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

VISITS: Final = 100_000
VISITORS: Final = 40_000
PAGES: Final = 30_000
IN_MESSAGE: Final = 50
"""Visits that a server sends together."""
PARTITIONS: Final = 4
STEPS: Final = 40
"""So often one looks at the numbers, for the figure."""
Seen = dict[str, list[tuple[float, float]]]


def run(place: Workplace) -> Findings:
    place.say(f"{VISITS:,} visits in {PARTITIONS} partitions, wherever their server sends them")
    messages = _publish(place, plan_visits(place.random))
    exact, sample, parts = Exact(), Sample(place.random), [Sketches() for _ in range(PARTITIONS)]
    seen: Seen = {"exact": [], "a hundredth, times 100": [], "sketches, added": [], "sketches, merged": []}
    for number, message in enumerate(messages, 1):
        visits = msgspec.json.decode(str(message.value), type=list[Visit])
        for summary in (exact, sample, parts[message.partition]):
            summary.add(visits)
        if number % (len(messages) // STEPS) == 0:
            for curve, visitors in zip(seen.values(), _count(exact, sample, parts), strict=True):
                curve.append((number * IN_MESSAGE / 1000, visitors))
    pages = {"exact": exact.pages, "a hundredth, times 100": sample.pages, "sketches, merged": merge_pages(parts)}
    truth = list_top(exact.pages)
    kept = (exact.visitor_bytes, sample.bytes, *[sum(each.visitor_bytes for each in parts)] * 2)
    page_bytes = (exact.page_bytes, sample.bytes, sum(each.page_bytes for each in parts))
    rows: list[tuple[str, int, float, int]] = [
        (f"different visitors: {way}", round(n), measure_error(n, len(exact.visitors)), size)
        for way, n, size in zip(seen, _count(exact, sample, parts), kept, strict=True)
    ]
    for (way, counts), size in zip(pages.items(), page_bytes, strict=True):
        errors = [measure_error(counts.get(page, 0), exact.pages[page]) for page in truth]
        found = len({*truth} & {*list_top(counts)})
        rows.append((f"of the {TOP} top pages: {way}", found, round(sum(errors) / TOP, 1), size))
    return Findings(
        columns=("question: way", "answer", "off by %", "bytes kept"),
        rows=tuple(rows),
        sentence=f"The number of visitors is off by {rows[1][2]:.0f} % from a sample, by {rows[2][2]:.0f} % when"
        f" partitions are added, by {rows[3][2]} % from merged sketches of {rows[3][3]:,} bytes, where"
        f" exact is {rows[0][3]:,}; the sample finds {rows[5][1]} of the {TOP} top pages, the sketches {rows[6][1]}.",
        figure=_draw(seen),
    )


def plan_visits(random: Random) -> list[Visit]:
    """Plan visits: half of them to few pages, which many visit, half to any of many pages."""

    def choose_page() -> int:
        return int(random.paretovariate(0.7)) if random.random() < 0.5 else random.randrange(PAGES)

    return [(f"visitor {random.randrange(VISITORS)}", f"page {choose_page()}") for _ in range(VISITS)]


def measure_error(found: float, right: int) -> float:
    """By how many per cent a number is wrong."""
    return round(abs(found - right) * 100 / right, 1)


def _publish(place: Workplace, visits: Sequence[Visit]) -> list[Message]:
    topic, producer = place.topic("approximate", PARTITIONS), place.producer()
    for number, start in enumerate(range(0, len(visits), IN_MESSAGE)):
        value = msgspec.json.encode(visits[start : start + IN_MESSAGE])
        producer.send(topic, value=value, partition=number % PARTITIONS)
    producer.flush()
    return read_whole(place.consumer(), topic)


def _count(exact: Exact, sample: Sample, parts: Sequence[Sketches]) -> tuple[float, float, float, float]:
    """How many different visitors, each way."""
    added = sum(count_visitors([each]) for each in parts)
    return len(exact.visitors), sample.visitors, added, count_visitors(parts)


def _draw(seen: Seen) -> Curves:
    curves = tuple(Curve(name, ((0.0, 0.0), *points)) for name, points in seen.items())
    return Curves(
        "Different visitors so far (exact and merged sketches lie on each other)",
        curves,
        "thousand visits",
        "different visitors",
    )


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Uses of Stream Processing", "Stream analytics"),
        Passage(SECOND, "Uses of Stream Processing", "Stream analytics"),
    ),
    # what is derived here is exact: these are refused
    files=("cdc/views/statement/refused.py",),
    parts=(Service.KAFKA,),
    run=run,
)
