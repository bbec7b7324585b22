"""Sales and tax rates, and two ways to join them: by what was read before, and by the version that a sale names."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

COUNTRIES: Final = ("DE", "FR", "IT")
SALES: Final = 90
BETWEEN: Final = 9
"""So many sales are between two changes of a rate."""


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
