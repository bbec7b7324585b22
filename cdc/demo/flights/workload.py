"""Plans a day at the airports: transactions of inserts, updates, changed keys and deletes, the same for a seed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any, Final

Row = Mapping[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class InsertRow:
    table: str
    row: Row


@dataclass(frozen=True, slots=True)
class UpdateRow:
    """New values for the row of a key; among them may be another key."""

    table: str
    key: Key
    values: Row


@dataclass(frozen=True, slots=True)
class DeleteRow:
    table: str
    key: Key


RowChange = InsertRow | UpdateRow | DeleteRow


@dataclass(frozen=True, slots=True)
class PlannedTransaction:
    """Changes that are committed together, or rolled back. `kind`: the event at the airport."""

    kind: str
    changes: tuple[RowChange, ...]
    is_committed: bool = True


@dataclass(frozen=True, slots=True)
class ExistingKeys:
    """The keys of the rows that a workload may change, and the highest flight number and tail in use.

    At least ten flights and one of each other table.
    """

    flights: Sequence[Key]
    planes: Sequence[Key]
    weather: Sequence[Key]
    airlines: Sequence[Key]
    last_flight: int = 10_000
    last_plane: int = 0


TAIL: Final = "DEMO"
"""The prefix of the tails of new planes; a number follows."""

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
"""The share of transactions rolled back. No follower may see them: decoding sends committed changes only."""
STORM_FLIGHTS: Final = 400
FEWEST: Final = 10
"""Keys are only deleted while at least so many exist."""


def plan(seed: int, stock: ExistingKeys, changes: int) -> Iterator[PlannedTransaction]:
    """Plan transactions until the committed ones change at least `changes` rows; the same plan for the same arguments.

    If the rows of `stock` exist, every update and delete names an existing row, and every insert a new key.
    """
    planner = _Planner(Random(seed), stock)  # noqa: S311
    done = 0
    while done < changes:
        transaction = planner.next(changes - done)
        # one that is rolled back counts for nothing: no follower sees it
        done += len(transaction.changes) if transaction.is_committed else 0
        yield transaction


class _Planner:
    """Draws transactions, and keeps track of the existing keys."""

    def __init__(self, random: Random, stock: ExistingKeys) -> None:
        self._random = random
        self._flights = _KeyPool(stock.flights)
        self._planes = _KeyPool(stock.planes)
        self._weather = stock.weather
        self._airlines = stock.airlines
        self._last_flight, self._last_plane = stock.last_flight, stock.last_plane
        self._kinds: dict[str, Callable[[], tuple[RowChange, ...]]] = {
            "delays": lambda: self._delay_flights(self._random.randint(1, 25)),
            "new flights": self._add_flights,
            "observations": self._correct_observation,
            "renumbered": self._renumber_flights,
            "cancelled": self._cancel_flights,
            "rebooked": self._rebook_flight,
            "new plane": self._add_plane,
            "reregistered": self._reregister_plane,
            "retired": self._retire_plane,
            "storm": lambda: self._delay_flights(STORM_FLIGHTS),
            "renamed": self._rename_airline,
        }

    def next(self, changes_left: int) -> PlannedTransaction:
        """Draw one transaction; a storm only if that many changes are left."""
        # near the end a storm would overshoot the number of changes asked for
        kinds = [kind for kind in WEIGHTS if kind != "storm" or changes_left >= STORM_FLIGHTS]
        kind = self._random.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        changes = self._kinds[kind]()
        is_committed = self._random.random() >= ROLLED_BACK
        # the pools follow Postgres, so that every later change names an existing row
        if is_committed:
            for change in changes:
                self._remember(change)
        return PlannedTransaction(kind, changes, is_committed)

    def _remember(self, change: RowChange) -> None:
        match change:
            # airlines and weather keep their keys: for them there is nothing to remember
            case InsertRow("flights", row):
                self._flights.add((row["time_hour"], row["carrier"], row["flight"]))
            case DeleteRow("flights", key):
                self._flights.discard(key)
            case UpdateRow("flights", key, {"flight": number}):
                self._flights.discard(key)
                self._flights.add((*key[:2], number))
            case InsertRow("planes", row):
                self._planes.add((row["tailnum"],))
            case DeleteRow("planes", key):
                self._planes.discard(key)
            case UpdateRow("planes", key, {"tailnum": tail}):
                self._planes.discard(key)
                self._planes.add((tail,))

    def _delay_flights(self, most: int) -> tuple[RowChange, ...]:
        return tuple(self._delay_flight(key) for key in self._some_flights(most))

    def _delay_flight(self, key: Key) -> UpdateRow:
        late = self._random.randint(1, 240)
        return UpdateRow("flights", key, {"dep_delay": late, "arr_delay": late + self._random.randint(-20, 30)})

    def _add_flights(self) -> tuple[RowChange, ...]:
        return tuple(InsertRow("flights", self._flight(key[0], key[1])) for key in self._some_flights(8))

    def _flight(self, time_hour: datetime, carrier: str) -> Row:
        # not reused after a rollback either: no insert may meet an existing key
        self._last_flight += 1
        return _row((time_hour, carrier, self._last_flight), self._random)

    def _cancel_flights(self) -> tuple[RowChange, ...]:
        keys = self._some_flights(5)
        return tuple(DeleteRow("flights", key) for key in keys) if len(self._flights) >= FEWEST else self._add_flights()

    def _renumber_flights(self) -> tuple[RowChange, ...]:
        """Change keys, and some of these rows once more under the new key."""
        changes: list[RowChange] = []
        for time_hour, carrier, number in self._some_flights(3):
            self._last_flight += 1
            changes.append(UpdateRow("flights", (time_hour, carrier, number), {"flight": self._last_flight}))
            if self._random.random() < 0.5:
                # the delete of the old key and this change go to two partitions: only the transaction orders them
                changes.append(self._delay_flight((time_hour, carrier, self._last_flight)))
        return tuple(changes)

    def _rebook_flight(self) -> tuple[RowChange, ...]:
        """Change, delete and insert one key again."""
        key = self._some_flights(1)[0]
        again = InsertRow("flights", _row(key, self._random))
        # four changes of one key: only their order in the transaction decides the final row
        return (self._delay_flight(key), DeleteRow("flights", key), again, self._delay_flight(key))

    def _correct_observation(self) -> tuple[RowChange, ...]:
        """Change one key several times: a value is corrected again and again."""
        key = self._random.choice(self._weather)
        return tuple(
            UpdateRow("weather", key, {"temp": self._degrees(), "humid": self._degrees(), "wind_gust": None})
            for _ in range(self._random.randint(2, 4))
        )

    def _degrees(self) -> Decimal:
        return Decimal(self._random.randint(0, 10_000)) / 100

    def _add_plane(self) -> tuple[RowChange, ...]:
        tail = self._new_tail()
        plane = {"tailnum": tail, "year": 2013, "manufacturer": "EMBRAER", "model": "ERJ 190-100", "seats": 100}
        return (InsertRow("planes", plane), *self._assign_plane(tail))

    def _reregister_plane(self) -> tuple[RowChange, ...]:
        tail = self._new_tail()
        return (UpdateRow("planes", self._planes.one(self._random), {"tailnum": tail}), *self._assign_plane(tail))

    def _retire_plane(self) -> tuple[RowChange, ...]:
        # a run of any length keeps planes to draw from
        if len(self._planes) < FEWEST:
            return self._add_plane()
        return (*self._assign_plane(None), DeleteRow("planes", self._planes.one(self._random)))

    def _assign_plane(self, tail: str | None) -> Iterator[RowChange]:
        return (UpdateRow("flights", key, {"tailnum": tail}) for key in self._some_flights(6))

    def _new_tail(self) -> str:
        # not reused either, for the same reason as a flight's number
        self._last_plane += 1
        return f"{TAIL}{self._last_plane}"

    def _rename_airline(self) -> tuple[RowChange, ...]:
        key = self._random.choice(self._airlines)
        return (UpdateRow("airlines", key, {"name": f"Airline {key[0]} no. {self._random.randint(1, 999)}"}),)

    def _some_flights(self, most: int) -> list[Key]:
        return self._flights.some(self._random, most)


class _KeyPool:
    """A set of keys to draw from; adding, removing and drawing take constant time."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = list(keys)
        self._indexes = {key: index for index, key in enumerate(self._keys)}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: Key) -> None:
        self._indexes[key] = len(self._keys)
        self._keys.append(key)

    def discard(self, key: Key) -> None:
        index, last = self._indexes.pop(key), self._keys.pop()
        # the last key moves to the free place: no search, and the same order for the same seed
        if last != key:
            self._keys[index], self._indexes[last] = last, index

    def one(self, random: Random) -> Key:
        return random.choice(self._keys)

    def some(self, random: Random, most: int) -> list[Key]:
        """Draw from one to `most` different keys, as far as there are so many."""
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
