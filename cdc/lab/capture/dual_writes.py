"""Two stores written in turn, by two clients at once and with failures halfway; then one store, and its log.

The clients and their plan are those of `cdc demo race`, which shows the same through the whole path. Here the log is
read with the least there is: Postgres decodes its own, and a few lines follow it.
"""

from collections.abc import Sequence
from typing import Final

import psycopg
from opensearchpy.helpers import bulk

from cdc.demo.race import clients
from cdc.demo.race.clients import TimedWrite
from cdc.demo.race.schedule import Schedule, plan_race
from cdc.demo.race.stores import (
    Stores,
    find_differences,
    make_index,
    make_table,
    open_client,
    read_index,
    read_table,
    translate_errors,
)
from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.decoding import LoggedChange, make_slot, read_slot
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Arrow, Event, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

PAIRS: Final = 400
TABLE: Final = "accounts"


def run(place: Workplace) -> Findings:
    plan = plan_race(place.random.randrange(2**32), PAIRS)
    with translate_errors():
        dual, writes = _write_to_both(place, plan)
        through_log = _write_through_log(place, plan)
    pairs, failures = len(plan.pairs), len(plan.failing)
    apart = len(set(dual) & set(plan.pairs))
    return Findings(
        columns=("writes", "keys", "differ for ever"),
        rows=(
            ("two clients at once, to both stores", pairs, apart),
            ("one client, failed between the stores", failures, len(dual) - apart),
            ("all of these, through the log", pairs + failures, len(through_log)),
        ),
        sentence=f"Of {pairs + failures} keys written to two stores {len(dual)} differ for ever, and no client knows;"
        f" of the same keys written to one store, whose log the other follows, {len(through_log)} do.",
        figure=_draw(plan, writes),
    )


def _write_to_both(place: Workplace, plan: Schedule) -> tuple[list[str], list[TimedWrite]]:
    """Let the clients write to both; returns the keys that differ, and what the first pair of clients did."""
    place.say("each client writes to the database, then to the search index")
    stores = Stores(place.database("dual"), TABLE, place.parts.search_url, place.index("dual"))
    make_index(stores.search_url, str(stores.index))
    make_table(stores.dsn, TABLE)
    writes = _write(stores, plan)
    return _read_differences(stores, str(stores.index)), writes


def _write_through_log(place: Workplace, plan: Schedule) -> list[str]:
    """Let the clients write to the database, and follow its log into the index; returns the keys that differ."""
    place.say("the same clients write to the database only; the index follows its log")
    stores = Stores(place.database("log"), TABLE, place.parts.search_url, None)
    index = place.index("log")
    make_index(stores.search_url, index)
    make_table(stores.dsn, TABLE)
    with psycopg.connect(stores.dsn, autocommit=True) as connection:
        slot = make_slot(connection)
        _write(stores, plan)
        _follow(read_slot(connection, slot), stores.search_url, index)
        return _read_differences(stores, index)


def _write(stores: Stores, plan: Schedule) -> list[TimedWrite]:
    """Do all planned writes; returns those of the first pair, whose order is the book's."""
    timelines = [clients.write_in_order(stores, pair) for pair in plan.forced]
    clients.race_pairs(stores, plan.raced, lambda _: None)
    clients.fail_writes(stores, plan.failing)
    return timelines[0]


def _read_differences(stores: Stores, index: str) -> list[str]:
    return find_differences(read_table(stores.dsn, TABLE), read_index(stores.search_url, index))


def _follow(changes: Sequence[LoggedChange], search_url: str, index: str) -> None:
    """Put every committed change into the index, in the order of the commits."""
    rows = [change.row for change in changes]
    with open_client(search_url) as client:
        bulk(client, ({"_index": index, "_id": row["id"], **row} for row in rows))


def _draw(plan: Schedule, writes: list[TimedWrite]) -> Timeline:
    """Draw the two clients of the first pair, between them the stores."""
    key, arrows, before = plan.forced[0].key, [], 0.0
    for write in writes:
        at, tone = write.seconds * 1000, Tone.PLAIN if write.step.client == 1 else Tone.GOOD
        store = str(write.step.store)
        arrows.append(Arrow(f"client {write.step.client}", before, store, at, f"{key}={write.value}", tone))
        before = at
    ends = [Event(name, before * 1.08, f"{key} is {value}", Tone.BAD) for name, value in _list_ends(writes[-1])]
    return Timeline(
        "Two clients write to two stores, and each store ends with another value",
        ("client 1", "database", "index", "client 2"),
        events=tuple(ends),
        arrows=tuple(arrows),
    )


def _list_ends(last: TimedWrite) -> list[tuple[str, str]]:
    return [("database", last.database), ("index", last.index)]


LAB: Final = Lab(
    passages=(Passage(FIRST, "Keeping Systems in Sync"), Passage(SECOND, "Keeping Systems in Sync")),
    files=("cdc/demo/race/run.py", "cdc/run/follow/follow.py", "sinks/search/follower.py"),
    parts=(Service.POSTGRES, Service.SEARCH),
    run=run,
)
