"""A day at the airports as values: transactions of inserts, updates, changed keys and deletes, the same for a seed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any, Final

Row = Mapping[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    table: str
    row: Row


@dataclass(frozen=True, slots=True)
class Update:
    """New values for the row of a key; among them may be another key."""

    table: str
    key: Key
    values: Row


@dataclass(frozen=True, slots=True)
class Delete:
    table: str
    key: Key


Work = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Transaction:
    """What is done at once, or rolled back at its end where it is not `kept`; `kind` says what happened."""

    kind: str
    work: tuple[Work, ...]
    kept: bool = True


@dataclass(frozen=True, slots=True)
class Stock:
    """The keys of the rows that a workload may touch, and the last flight number and tail that is taken.

    At least ten flights and one of each other table.
    """

    flights: Sequence[Key]
    planes: Sequence[Key]
    weather: Sequence[Key]
    airlines: Sequence[Key]
    last_flight: int = 10_000
    last_plane: int = 0


TAIL: Final = "DEMO"
"""How the tails of new planes begin, a number follows."""

WEIGHTS: Final = {
    "delays": 30,
    "new flights": 14,
    "observations": 14,
    "renumbered": 10,
    "cancelled": 8,
    "rebooked": 8,
    "new plane": 6,
    "reregistered": 4,
    "retired": 3,
    "storm": 1,
    "renamed": 2,
}
ROLLED_BACK: Final = 0.06
"""This part of all transactions; nothing of them may arrive anywhere, since decoding sends what was committed."""
STORM_FLIGHTS: Final = 400
FEWEST: Final = 10
"""So many keys are left before any is taken away."""


def plan(seed: int, stock: Stock, changes: int) -> Iterator[Transaction]:
    """Transactions with at least `changes` changed rows in those that are kept; the same for the same arguments.

    Every change names a row that is there, every insert a key that is not, if the rows of `stock` are there.
    """
    planner = _Planner(Random(seed), stock)  # noqa: S311
    done = 0
    while done < changes:
        transaction = planner.next(changes - done)
        done += len(transaction.work) if transaction.kept else 0
        yield transaction


class _Planner:
    """Draws transactions, and keeps track of the keys that are there."""

    def __init__(self, random: Random, stock: Stock) -> None:
        self._random = random
        self._flights = _Pool(stock.flights)
        self._planes = _Pool(stock.planes)
        self._weather = stock.weather
        self._airlines = stock.airlines
        self._last_flight, self._last_plane = stock.last_flight, stock.last_plane
        self._kinds: dict[str, Callable[[], tuple[Work, ...]]] = {
            "delays": lambda: self._delays(self._random.randint(1, 25)),
            "new flights": self._new_flights,
            "observations": self._observations,
            "renumbered": self._renumbered,
            "cancelled": self._cancelled,
            "rebooked": self._rebooked,
            "new plane": self._new_plane,
            "reregistered": self._reregistered,
            "retired": self._retired,
            "storm": lambda: self._delays(STORM_FLIGHTS),
            "renamed": self._renamed,
        }

    def next(self, left: int) -> Transaction:
        """Draw one transaction; a storm comes only where that many changes are left."""
        kinds = [kind for kind in WEIGHTS if kind != "storm" or left >= STORM_FLIGHTS]
        kind = self._random.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        work = self._kinds[kind]()
        kept = self._random.random() >= ROLLED_BACK
        # the pools hold what Postgres holds: every later change is to name a row that is there
        if kept:
            for each in work:
                self._remember(each)
        return Transaction(kind, work, kept)

    def _remember(self, work: Work) -> None:
        match work:
            case Insert("flights", row):
                self._flights.add((row["time_hour"], row["carrier"], row["flight"]))
            case Delete("flights", key):
                self._flights.discard(key)
            case Update("flights", key, {"flight": number}):
                self._flights.discard(key)
                self._flights.add((*key[:2], number))
            case Insert("planes", row):
                self._planes.add((row["tailnum"],))
            case Delete("planes", key):
                self._planes.discard(key)
            case Update("planes", key, {"tailnum": tail}):
                self._planes.discard(key)
                self._planes.add((tail,))

    def _delays(self, most: int) -> tuple[Work, ...]:
        return tuple(self._delayed(key) for key in self._some_flights(most))

    def _delayed(self, key: Key) -> Update:
        late = self._random.randint(1, 240)
        return Update("flights", key, {"dep_delay": late, "arr_delay": late + self._random.randint(-20, 30)})

    def _new_flights(self) -> tuple[Work, ...]:
        return tuple(Insert("flights", self._flight(key[0], key[1])) for key in self._some_flights(8))

    def _flight(self, time_hour: datetime, carrier: str) -> Row:
        # not given back by a rollback either: no insert may ever meet a key that is there
        self._last_flight += 1
        return _row((time_hour, carrier, self._last_flight), self._random)

    def _cancelled(self) -> tuple[Work, ...]:
        keys = self._some_flights(5)
        return tuple(Delete("flights", key) for key in keys) if len(self._flights) >= FEWEST else self._new_flights()

    def _renumbered(self) -> tuple[Work, ...]:
        """Changed keys, some of rows that are changed once more under the new one."""
        work: list[Work] = []
        for time_hour, carrier, number in self._some_flights(3):
            self._last_flight += 1
            work.append(Update("flights", (time_hour, carrier, number), {"flight": self._last_flight}))
            if self._random.random() < 0.5:
                # the delete under the old key and this change lie in two partitions: only the transaction orders them
                work.append(self._delayed((time_hour, carrier, self._last_flight)))
        return tuple(work)

    def _rebooked(self) -> tuple[Work, ...]:
        """One key changed, deleted and made again."""
        key = self._some_flights(1)[0]
        again = Insert("flights", _row(key, self._random))
        # four changes of one key, of which only their order in the transaction says what is left
        return (self._delayed(key), Delete("flights", key), again, self._delayed(key))

    def _observations(self) -> tuple[Work, ...]:
        """Several changes of one key: a value that is corrected and corrected again."""
        key = self._random.choice(self._weather)
        return tuple(
            Update("weather", key, {"temp": self._degrees(), "humid": self._degrees(), "wind_gust": None})
            for _ in range(self._random.randint(2, 4))
        )

    def _degrees(self) -> Decimal:
        return Decimal(self._random.randint(0, 10_000)) / 100

    def _new_plane(self) -> tuple[Work, ...]:
        tail = self._new_tail()
        plane = {"tailnum": tail, "year": 2013, "manufacturer": "EMBRAER", "model": "ERJ 190-100", "seats": 100}
        return (Insert("planes", plane), *self._flown_by(tail))

    def _reregistered(self) -> tuple[Work, ...]:
        tail = self._new_tail()
        return (Update("planes", self._planes.one(self._random), {"tailnum": tail}), *self._flown_by(tail))

    def _retired(self) -> tuple[Work, ...]:
        if len(self._planes) < FEWEST:
            return self._new_plane()
        return (*self._flown_by(None), Delete("planes", self._planes.one(self._random)))

    def _flown_by(self, tail: str | None) -> Iterator[Work]:
        return (Update("flights", key, {"tailnum": tail}) for key in self._some_flights(6))

    def _new_tail(self) -> str:
        self._last_plane += 1
        return f"{TAIL}{self._last_plane}"

    def _renamed(self) -> tuple[Work, ...]:
        key = self._random.choice(self._airlines)
        return (Update("airlines", key, {"name": f"Airline {key[0]} no. {self._random.randint(1, 999)}"}),)

    def _some_flights(self, most: int) -> list[Key]:
        return self._flights.some(self._random, most)


class _Pool:
    """Keys to draw from, each step in constant time."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = list(keys)
        self._places = {key: place for place, key in enumerate(self._keys)}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: Key) -> None:
        self._places[key] = len(self._keys)
        self._keys.append(key)

    def discard(self, key: Key) -> None:
        place, last = self._places.pop(key), self._keys.pop()
        # the last key takes the place that is free: nothing is searched, and the same seed finds the same order
        if last != key:
            self._keys[place], self._places[last] = last, place

    def one(self, random: Random) -> Key:
        return random.choice(self._keys)

    def some(self, random: Random, most: int) -> list[Key]:
        """From one to `most` different ones, as far as there are so many."""
        return random.sample(self._keys, min(random.randint(1, most), len(self._keys)))


def _row(key: Key, random: Random) -> Row:
    time_hour, carrier, flight = key
    minute = random.randint(0, 59)
    return {
        "year": time_hour.year,
        "month": time_hour.month,
        "day": time_hour.day,
        "sched_dep_time": time_hour.hour * 100 + minute,
        "sched_arr_time": (time_hour.hour + 2) % 24 * 100 + minute,
        "carrier": carrier,
        "flight": flight,
        "origin": random.choice(("EWR", "JFK", "LGA")),
        "dest": random.choice(("IAH", "MIA", "SEA", "ORD", "LAX", "BOS")),
        "distance": random.randint(80, 4983),
        "hour": time_hour.hour,
        "minute": minute,
        "time_hour": time_hour,
    }
