"""A sale is taxed by the newest rate that was read; run again, sales and rates are read in another order.

So the same events give another tax. When the sale names the version of its rate, every run gives the same.
"""

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import Any, Final

from kafka import TopicPartition

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure, PartitionCells
from cdc.lab.lesson import Findings, Lab
from cdc.lab.messages import Message, read_whole, take_exactly
from cdc.lab.streams.events import decode, encode
from cdc.lab.streams.sales import (
    BETWEEN,
    COUNTRIES,
    SALES,
    Sale,
    Taxed,
    Taxes,
    TaxRate,
    plan_sales,
    tax_by_newest,
    tax_by_version,
)
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

DRAWN: Final = 20
OF_SALES, OF_RATES = 0, 1
"""The two partitions."""


def run(place: Workplace) -> Findings:
    events = plan_sales(place.random)
    topic, producer = place.topic("tax", partitions=2), place.producer()
    for event in events:
        producer.send(topic, value=encode(event), partition=_find_partition(event))
    producer.flush()
    as_it_was = [_find_partition(event) for event in events]
    slow_rates = sorted(as_it_was[len(COUNTRIES) :])
    runs = {
        "as it happened": _read_in_order(place, topic, as_it_was),
        "again: the sales are slow": _read_in_order(place, topic, sorted(as_it_was, reverse=True)),
        "again: the rates are slow": _read_in_order(place, topic, [OF_RATES] * len(COUNTRIES) + slow_rates),
        "again: in turns": _read_in_order(place, topic, take_turns(as_it_was)),
        "again: as the client gets them": [_decode(message) for message in read_whole(place.consumer(), topic)],
    }
    first = runs["as it happened"]
    rows = [
        (name, _count_switches(read), *_compare(read, first, tax_by_newest), *_compare(read, first, tax_by_version))
        for name, read in runs.items()
    ]
    return Findings(
        columns=(
            "run",
            "switches of partition",
            "tax by the newest rate",
            "sales changed",
            "tax by version",
            "changed by version",
        ),
        rows=tuple(rows),
        sentence=f"The same {SALES} sales, run {len(rows)} times: {len({row[2] for row in rows})} different taxes by"
        f" the newest rate that was read, {len({row[4] for row in rows})} by the version that the sale names.",
        figure=_draw(runs),
    )


def take_turns(partitions: Sequence[int]) -> list[int]:
    """After the first rates: two more of them, then the sales that happened between them, and so on."""
    changes = partitions.count(OF_RATES) - len(COUNTRIES)
    turns = [OF_RATES] * 2 + [OF_SALES] * 2 * BETWEEN
    return [OF_RATES] * len(COUNTRIES) + turns * (changes // 2)


def _find_partition(event: Taxed) -> int:
    return OF_SALES if isinstance(event, Sale) else OF_RATES


def _read_in_order(place: Workplace, topic: str, order: Sequence[int]) -> list[Taxed]:
    """Consume both partitions, each message from the next one in this order: the other one is slow meanwhile."""
    consumer: Any = place.consumer()
    places = [TopicPartition(topic, number) for number in (OF_SALES, OF_RATES)]
    consumer.assign(places)
    found: list[Taxed] = []
    for number, run_of in groupby(order):
        consumer.pause(places[1 - number])
        consumer.resume(places[number])
        found += map(_decode, take_exactly(consumer, len([*run_of])))
    return found


def _decode(message: Message) -> Taxed:
    return decode(message, Sale) if message.partition == OF_SALES else decode(message, TaxRate)


def _count_switches(read: Sequence[Taxed]) -> int:
    """Count how often the reader went from one partition to the other."""
    return sum(type(one) is not type(next_one) for one, next_one in pairwise(read))


def _compare(
    read: Sequence[Taxed], first: Sequence[Taxed], tax: Callable[[Sequence[Taxed]], Taxes]
) -> tuple[float, int]:
    """The sum of all taxes, and how many sales have another tax than in the first run."""
    taxes, before = tax(read), tax(first)
    return round(sum(taxes.values()), 2), sum(taxes[id] != before[id] for id in before)


def _draw(runs: dict[str, list[Taxed]]) -> LogFigure:
    """Draw the beginning of each run for one country: rates, and sales with the rate by which they are taxed."""
    rows = []
    first = tax_by_newest(runs["as it happened"])
    for name, read in runs.items():
        taxes, cells = tax_by_newest(read), list[Cell]()
        for event in [each for each in read if each.country == COUNTRIES[0]][:DRAWN]:
            match event:
                case TaxRate(_, _, percent):
                    cells.append(Cell(len(cells), f"{percent} %", Tone.QUIET))
                case Sale(id):
                    cells.append(Cell(len(cells), f"s{id}", Tone.GOOD if taxes[id] == first[id] else Tone.BAD))
        rows.append(PartitionCells(name, tuple(cells)))
    title = f"Sales and rates of {COUNTRIES[0]} as each run has read them; red: taxed otherwise than when it happened"
    return LogFigure(title, tuple(rows))


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Stream Joins", "Time-dependence of joins"),
        Passage(SECOND, "Stream Joins", "Time-dependence of joins"),
    ),
    files=("sinks/lake/HISTORY.md", "cdc/views/TIME.md"),
    parts=(Service.KAFKA,),
    run=run,
)
