"""A sale is taxed by the newest rate that was read; run again, sales and rates are read in another order.

So the same events give another tax. When the sale names the version of its rate, every run gives the same.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from random import Random
from typing import Final

from kafka import TopicPartition

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure
from cdc.lab.lesson import Findings
from cdc.lab.messages import Message, read_whole, take_exactly
from cdc.lab.workplace import Workplace

COUNTRIES: Final = ("DE", "FR", "IT")
SALES: Final = 90
BETWEEN: Final = 9  # so many sales are between two changes of a rate
DRAWN: Final = 20
OF_SALES, OF_RATES = 0, 1  # the two partitions


@dataclass(frozen=True, slots=True)
class Sale:
    """A sale; it names the version of the rate of its country that was valid."""

    id: int
    country: str
    amount: int
    version: str


@dataclass(frozen=True, slots=True)
class TaxRate:
    """A version of a country's rate, valid until the next one."""

    version: str
    country: str
    percent: int


Taxed = Sale | TaxRate
Taxes = dict[int, float]
"""The tax of each sale."""


def run(place: Workplace) -> Findings:
    events = plan_sales(place.random)
    topic = place.publish(place.topic("tax", partitions=2), events, partition=find_partition)
    as_it_was = [find_partition(event) for event in events]
    slow_rates = sorted(as_it_was[len(COUNTRIES) :])
    runs = {
        "as it happened": _read_in_order(place, topic, as_it_was),
        "again: the sales are slow": _read_in_order(place, topic, sorted(as_it_was, reverse=True)),
        "again: the rates are slow": _read_in_order(place, topic, [OF_RATES] * len(COUNTRIES) + slow_rates),
        "again: in turns": _read_in_order(place, topic, take_turns(as_it_was)),
        "again: as the client gets them": [_decode(message) for message in read_whole(place.consumer(), topic)],
    }
    first, rows = runs["as it happened"], []
    for name, read in runs.items():
        switches = sum(type(one) is not type(following) for one, following in pairwise(read))
        rows.append((name, switches, *_compare(read, first, tax_by_newest), *_compare(read, first, tax_by_version)))
    by_newest, by_version = "tax by the newest rate", "tax by version"
    return Findings(
        columns=("run", "switches of partition", by_newest, "sales changed", by_version, "changed by version"),
        rows=rows,
        sentence=f"The same {SALES} sales, run {len(rows)} times: {len({row[2] for row in rows})} different taxes by"
        f" the newest rate that was read, {len({row[4] for row in rows})} by the version that the sale names.",
        figure=_draw(runs),
    )


def plan_sales(random: Random) -> list[Taxed]:
    """Plan sales of all countries, in order; now and then the rate of one of them changes."""
    versions = Counter[str]()
    percents: dict[str, int] = {}

    def change(country: str) -> TaxRate:
        versions[country] += 1
        percents[country] = random.choice([percent for percent in range(5, 26) if percent != percents.get(country)])
        return TaxRate(f"{country}{versions[country]}", country, percents[country])

    events: list[Taxed] = [change(country) for country in COUNTRIES]
    for id in range(SALES):
        # each country in turn, so that each has sales under each of its rates
        country = COUNTRIES[id % len(COUNTRIES)]
        events.append(Sale(id, country, random.randint(1, 500), f"{country}{versions[country]}"))
        if id % BETWEEN == BETWEEN - 1:
            events.append(change(random.choice(COUNTRIES)))
    return events


def find_partition(event: Taxed) -> int:
    return OF_SALES if isinstance(event, Sale) else OF_RATES


def take_turns(partitions: Sequence[int]) -> list[int]:
    """After the first rates: two more of them, then the sales that happened between them, and so on."""
    changes = partitions.count(OF_RATES) - len(COUNTRIES)
    turns = [OF_RATES] * 2 + [OF_SALES] * 2 * BETWEEN
    return [OF_RATES] * len(COUNTRIES) + turns * (changes // 2)


def _read_in_order(place: Workplace, topic: str, order: Sequence[int]) -> list[Taxed]:
    """Consume both partitions, each message from the next one in this order: the other one is slow meanwhile."""
    places = [TopicPartition(topic, number) for number in (OF_SALES, OF_RATES)]
    consumer = place.consumer(*places)
    found: list[Taxed] = []
    for number, run_of in groupby(order):
        consumer.pause(places[1 - number])
        consumer.resume(places[number])
        found += map(_decode, take_exactly(consumer, len([*run_of])))
    return found


def _decode(message: Message) -> Taxed:
    return message.decode(Sale) if message.partition == OF_SALES else message.decode(TaxRate)


def tax_by_newest(events: Sequence[Taxed]) -> Taxes:
    """Tax each sale by the rate of its country that was read last; not at all before the first one."""
    taxes, newest = Taxes(), dict[str, int]()
    for event in events:
        match event:
            case TaxRate():
                newest[event.country] = event.percent
            case Sale():
                taxes[event.id] = event.amount * newest.get(event.country, 0) / 100
    return taxes


def tax_by_version(events: Sequence[Taxed]) -> Taxes:
    """Tax each sale by the version of the rate that it names; it waits until that has been read."""
    taxes, known = Taxes(), dict[str, int]()
    waiting: defaultdict[str, list[Sale]] = defaultdict(list)
    for event in events:
        match event:
            case TaxRate():
                known[event.version] = event.percent
            case Sale():
                waiting[event.version].append(event)
        if event.version in known:
            taxes |= {sale.id: sale.amount * known[sale.version] / 100 for sale in waiting.pop(event.version, [])}
    return taxes


def _compare(
    read: Sequence[Taxed], first: Sequence[Taxed], tax: Callable[[Sequence[Taxed]], Taxes]
) -> tuple[float, int]:
    """The sum of all taxes, and how many sales have another tax than in the first run."""
    taxes, before = tax(read), tax(first)
    return round(sum(taxes.values()), 2), sum(taxes[id] != before[id] for id in before)


def _draw(runs: dict[str, list[Taxed]]) -> LogFigure:
    """Draw the beginning of each run for one country: rates, and sales with the rate by which they are taxed."""
    rows: dict[str, list[Cell]] = {}
    first = tax_by_newest(runs["as it happened"])
    for name, read in runs.items():
        taxes, cells = tax_by_newest(read), rows.setdefault(name, [])
        for event in [each for each in read if each.country == COUNTRIES[0]][:DRAWN]:
            match event:
                case TaxRate(_, _, percent):
                    cells.append(Cell(len(cells), f"{percent} %", Tone.QUIET))
                case Sale(id):
                    cells.append(Cell(len(cells), f"s{id}", Tone.GOOD if taxes[id] == first[id] else Tone.BAD))
    title = f"Sales and rates of {COUNTRIES[0]} as each run has read them; red: taxed otherwise than when it happened"
    return LogFigure(title, rows)
