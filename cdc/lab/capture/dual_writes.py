"""Two stores written in turn, by two clients at once and with failures halfway; then one store, and its log.

This is the race of `cdc demo race`, whose index follows the log by the whole path of this project. Here a few lines
follow it: Postgres decodes its own log.
"""

from dataclasses import replace
from typing import Final

from opensearchpy.helpers import bulk

from cdc.demo.race.clients import TimedWrite, write_all
from cdc.demo.race.outcome import judge_race
from cdc.demo.race.schedule import Schedule, plan_race
from cdc.demo.race.stores import Stores, find_differences, open_client, translate_errors
from cdc.lab.decoding import make_slot, read_slot
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Arrow, Event, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.workplace import Workplace

PAIRS: Final = 400
TABLE: Final = "accounts"


def run(place: Workplace) -> Findings:
    plan = plan_race(place.random.randrange(2**32), PAIRS)
    with translate_errors():
        place.say("each client writes to the database, then to the search index")
        stores = _make_stores(place, "dual")
        writes = write_all(stores, plan, lambda _: None)
        place.say("the same clients write to the database only; the index follows its log")
        race = judge_race(plan, find_differences(*stores.read()), _write_through_log(place, plan))
    keys, apart = race.pairs + race.failures, race.dual_write_diverged + race.partial_failure_diverged
    return Findings(
        columns=("writes", "keys", "differ for ever"),
        rows=[
            ("two clients at once, to both stores", race.pairs, race.dual_write_diverged),
            ("one client, failed between the stores", race.failures, race.partial_failure_diverged),
            ("all of these, through the log", keys, race.cdc_diverged),
        ],
        sentence=f"Of {keys} keys written to two stores {apart} differ for ever, and no client knows;"
        f" of the same keys written to one store, whose log the other follows, {race.cdc_diverged} do.",
        figure=_draw(plan.forced[0].key, writes),
    )


def _make_stores(place: Workplace, name: str) -> Stores:
    stores = Stores(place.database(name), TABLE, place.search_url, place.index(name))
    stores.make()
    return stores


def _write_through_log(place: Workplace, plan: Schedule) -> list[str]:
    """Let the clients write to the database, and follow its log into the index; returns the keys that differ."""
    stores = _make_stores(place, "log")
    session = place.session(stores.dsn)
    slot = make_slot(session)
    write_all(replace(stores, index=None), plan, lambda _: None)
    rows = [change.row for change in read_slot(session, slot)]
    with open_client(stores.search_url) as client:
        # in the order of the commits
        bulk(client, ({"_index": stores.index, "_id": row["id"], **row} for row in rows))
    return find_differences(*stores.read())


def _draw(key: str, writes: list[TimedWrite]) -> Timeline:
    """Draw the two clients of the first pair, between them the stores."""
    arrows, before = [], 0.0
    for write in writes:
        at, tone = write.seconds * 1000, Tone.PLAIN if write.step.client == 1 else Tone.GOOD
        store = str(write.step.store)
        arrows.append(Arrow(f"client {write.step.client}", before, store, at, f"{key}={write.value}", tone))
        before = at
    last = {"database": writes[-1].database, "index": writes[-1].index}
    return Timeline(
        "Two clients write to two stores, and each store ends with another value",
        ("client 1", "database", "index", "client 2"),
        [Event(store, before * 1.08, f"{key} is {value}", Tone.BAD) for store, value in last.items()],
        arrows=arrows,
    )
