"""The proof after each cell: every row of every follower and view, the histories' chains, and the matches."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Final

import cdc
from cdc.core.errors import CdcError
from cdc.core.waiting import Deadline
from cdc.run.verify.chains import check_chains
from cdc.sinks.transactional_state import committed_records
from tests.cells.world import FOLLOWERS, World
from tests.support.cdc_inprocess import verify

LIMIT_SECONDS: Final = 120.0
"""A machine that does other things, too, may take so long to copy a table again."""
LOOK_SECONDS: Final = 1.0
Waited = Mapping[str, float]
RANGE: Final = re.compile(r'\{"range": \{"n": \{"(lt|gt)": (\d+)\}\}\}')


def await_all(world: World, is_running: Callable[[], bool] = lambda: True, seconds: float = LIMIT_SECONDS) -> Waited:
    """Wait until readers of every follower see what is committed now, as long as it `is_running`. Raises CdcError.

    Returns when each was seen to do so, in seconds from the start; one that was slower hides those behind it.
    """
    deadline, began, waited = Deadline(seconds), time.monotonic(), dict[str, float]()
    with cdc.open(world.pipeline.config) as readers, world.session() as session:
        token = cdc.token(session)
        for follower in FOLLOWERS:
            while True:
                try:
                    readers.wait(token, follower, seconds=LOOK_SECONDS)
                    break
                except CdcError:
                    if deadline.is_past or not is_running():
                        raise
            waited[follower] = round(time.monotonic() - began, 1)
    return waited


def find_difference(world: World) -> str | None:
    """What is not as in the source; None when everything is. Raises CdcError for what cannot be compared."""
    report = verify(world.pipeline, world.spark)
    if not report.is_equal:
        return str(report.as_json())
    with world.pipeline.opened(world.spark) as opened:
        broken = [verdict for verdict in check_chains(opened) if verdict.broken]
    return str(broken) if broken else find_wrong_matches(world)


def find_wrong_matches(world: World) -> str | None:
    """The pairs of saved search and order that are told and should not be, or the other way; None without any."""
    wanted = set[tuple[int, int]]()
    with world.session() as session:
        for key, text in session.execute("SELECT id, query::text FROM saved_searches").fetchall():
            if (found := RANGE.fullmatch(text)) is None:
                return f"saved search {key} is {text}"
            sign = "<" if found[1] == "lt" else ">"
            orders = session.execute(f"SELECT id FROM orders WHERE n {sign} {found[2]}".encode())
            wanted |= {(key, order) for (order,) in orders}
    told = _read_matches(world)
    if wanted == told:
        return None
    return f"matches: {sorted(wanted - told)[:5]} are missing, {sorted(told - wanted)[:5]} are too many"


def _read_matches(world: World) -> set[tuple[int, int]]:
    from cdc.sinks.percolator.records import to_pair

    log = world.pipeline.settings.log
    topic = f"{log.prefix}.alerts-matches-present"
    there = set[bytes]()
    for record in committed_records(log, topic):
        (there.discard if record.value is None else there.add)(record.key or b"")
    return {(_number(pair.query), _number(pair.row)) for pair in map(to_pair, there)}


def _number(key: str) -> int:
    return int(re.findall(r"-?\d+", key)[-1])
