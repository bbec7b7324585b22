"""Random queries and rows against a small evaluator: what is told after each cut is what matches, each change once."""

import os
import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any
from unittest.mock import patch

import pytest

from cdc.sinks.percolator.follower import RowIndexes
from cdc.sinks.percolator.match_log import MatchLog
from tests.servers.percolator.oracle import CITIES, WORDS, Query, matches, random_query, to_text
from tests.servers.percolator.play import LISTINGS, SEARCHES, Pairs, Scene, listing, make_scene, saved
from tests.support.examples import scaled
from tests.support.further import further
from tests.support.model import Key, Row

__all__ = ["make_scene"]

CUTS = scaled(60)
"""Of a history: a fifth of them usually, all with `--further`."""
SEEDS = [int(os.environ.get("CDC_TEST_SEED", "1")), further("2", 2)]


class Killed(BaseException):
    """The process ends here."""


def dying(random: random.Random, follower: Any) -> ExitStack:
    """Kill at one of the steps of a batch."""
    place = random.choice(
        [
            "cdc.sinks.search.state.StateDocument.store",
            "cdc.sinks.opensearch.write.send",
            "cdc.sinks.percolator.percolators.Percolators.update",
            "cdc.sinks.percolator.search.find_rows",
            "cdc.sinks.percolator.search.percolate",
            "cdc.sinks.percolator.records.position_record",
            "cdc.log.clients.transactional_writer.TransactionalWriter._commit",
            "after the rows",
            "after the commit",
        ]
    )
    stack = ExitStack()
    if place.startswith("cdc"):
        stack.enter_context(patch(place, side_effect=Killed))
        return stack
    owner, name = (follower._rows, "apply") if place == "after the rows" else (MatchLog, "commit")
    real = getattr(owner, name)

    def then_die(*args: Any) -> None:
        real(*args)
        raise Killed

    stack.enter_context(patch.object(owner, name, then_die))
    return stack


class History:
    """Both tables as they are now, and what has changed since the follower was told."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.listings: dict[Key, Row] = {}
        self.queries: dict[int, Query | None] = {}
        self.changed_listings: set[Key] = set()
        self.changed_queries: set[int] = set()

    def change(self) -> None:
        r = self.random
        for _ in range(r.randint(0, 6)):
            number = r.randrange(25)
            self.changed_listings.add((number,))
            if r.random() < 0.25:
                self.listings.pop((number,), None)
            else:
                price, city = r.choice([None, *range(10)]), r.choice([None, *CITIES])
                self.listings[number,] = listing(number, " ".join(r.choices(WORDS, k=3)), price, city)
        for _ in range(r.choice([0, 0, 1, 2])):
            number = r.randrange(12)
            self.changed_queries.add(number)
            if r.random() < 0.25:
                self.queries.pop(number, None)
            else:
                self.queries[number] = random_query(r) if r.random() < 0.9 else None

    def apply(self, scene: Scene, offset: int) -> None:
        scene.apply(
            offset,
            {key: self.listings.get(key) for key in self.changed_listings},
            {(number,): row for number, row in self._rows(self.changed_queries).items()},
        )

    def _rows(self, numbers: set[int]) -> dict[int, Row | None]:
        return {
            number: saved(number, to_text(self.queries[number])) if number in self.queries else None
            for number in numbers
        }

    def copy_again(self, scene: Scene) -> None:
        table = self.random.choice([LISTINGS, SEARCHES])
        queries: dict[Key, Row] = {(number,): row for number, row in self._rows({*self.queries}).items() if row}
        scene.load(table, self.listings if table == LISTINGS else queries)

    def arrived(self) -> None:
        self.changed_listings, self.changed_queries = set(), set()

    def expected(self) -> Pairs:
        return {
            (number, int(str(row["id"])))
            for number, query in self.queries.items()
            for row in self.listings.values()
            if query is not None and matches(query, row)
        }


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_told_is_what_matches(make_scene: Callable[..., Scene], seed: int) -> None:
    """Further: another history."""
    scene, history = make_scene(documents_at_once=3, bulk_documents=3), History(seed)
    history.change()
    for table in (LISTINGS, SEARCHES):
        scene.load(table, {})
    scene.apply(1)
    begun = 0
    for offset in range(2, 2 * CUTS, 2):
        history.change()
        if history.random.random() < 0.1:
            history.copy_again(scene)
        if history.random.random() < 0.4:
            with suppress(Killed), dying(history.random, scene.follower):
                history.apply(scene, offset)
            scene.restart()
            # the next batch reaches at least as far: sometimes it is the same, sometimes it has more
            if history.random.random() < 0.5:
                history.change()
                offset += 1
        history.apply(scene, offset)
        history.arrived()
        assert scene.told() == history.expected(), f"seed {seed}, cut {offset}"
        assert scene.present() == scene.told()
        begun = max(begun, len(scene.told()))
    assert begun > 10


def test_the_rows_follower_is_one_of_the_search_kind(make_scene: Callable[..., Scene]) -> None:
    """Nothing but types holds the two together."""
    rows: RowIndexes = make_scene().follower._rows
    assert callable(rows.searchable)
