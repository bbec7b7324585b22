"""Whole cases of views: random histories of all their tables, and their statements' own answer after every cut.

Spark's answer after the last one; before, DuckDB's, where it is proven to be the same (`test_proven_functions.py`).
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession

from cdc.views.definition import ViewDefinition
from cdc.views.explanation import explain
from cdc.views.refresh.write_rows import write_changes
from cdc.views.store import ViewStore
from tests.support.further import further
from tests.support.lake.places import PLACES, PlacedLake, place_lake
from tests.support.views import clicks, shop, timeline, tpch
from tests.support.views.kept import Kept
from tests.support.views.random_history import Side, change, fill
from tests.support.views.statements import odd_statements

CUTS, ROUNDS = 3, 6
CASES = {
    "timeline": (timeline.SIDES, timeline.VIEWS),
    "shop": (shop.SIDES, shop.VIEWS),
    "tpch": (tpch.SIDES, tpch.VIEWS),
    "clicks": (clicks.SIDES, clicks.VIEWS),
    "odd statements": (odd_statements.SIDES, odd_statements.VIEWS),
}
WHOLE = {"odd.comma", "odd.chosen"}
"""Views that some changes touch in every row."""
BY_SPARK = {"clicks.sessions"}
"""Views that go by keys, whose rows Spark computes."""


@pytest.mark.parametrize(
    ("sides", "views", "seed"),
    [
        *(pytest.param(*case, 0, id=name) for name, case in CASES.items()),
        *(further(f"{name} {seed}", *case, seed) for name, case in CASES.items() for seed in range(1, 6)),
    ],
)
def test_views_are_their_statements(
    spark: SparkSession, tmp_path: Path, sides: Sequence[Side], views: Sequence[ViewDefinition], seed: int
) -> None:
    """Further: other histories of the same cases, with Spark's answer after every cut."""
    kept, random = Kept(spark, tmp_path, [each.table for each in sides], views), Random(seed)
    fill(kept.source, sides, random, rows=6)
    for number in range(CUTS):
        if random.randrange(4) == 0:
            kept.restart()
        cut = kept.keeper.bring(kept.source.cut())
        assert not [*kept.differences(cut, all_by_spark=seed > 0 or number == CUTS - 1)], number
        change(kept.source, sides, random)
    explained = {str(view.name): explain(kept.compiled(view)) for view in views}
    whole = {name for name, each in explained.items() if any("whole" in use.way for use in each.uses)}
    assert whole == WHOLE & explained.keys()
    assert {name for name, each in explained.items() if each.engine == "Spark"} == whole | BY_SPARK & explained.keys()


class KeeperEndedError(BaseException):
    """What ends a keeper: nothing of it catches this."""


@pytest.fixture(params=[further("folder", "folder"), PLACES[1]])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    return place_lake(request, tmp_path)


def test_an_interrupted_keeper_is_followed_by_another(
    spark: SparkSession, tmp_path: Path, lake: PlacedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends behind some commits of views, or behind all and before the cut: the next one finds them ahead of it.

    Further: the same in a folder.
    """
    sides, views, random = timeline.SIDES, timeline.VIEWS, Random(3)
    kept = Kept(spark, tmp_path, [each.table for each in sides], views, lake)
    fill(kept.source, sides, random, rows=6)
    kept.keeper.bring(kept.source.cut())
    interrupted = 0
    for number in range(ROUNDS):
        change(kept.source, sides, random)
        cut = kept.source.cut()
        with monkeypatch.context() as patched:
            _interrupt(patched, random.randrange(4))
            try:
                kept.keeper.bring(cut)
            except KeeperEndedError:
                interrupted += 1
        kept.restart()
        if random.random() < 0.5:
            change(kept.source, sides, random)
            cut = kept.source.cut()
        reached = kept.keeper.bring(cut)
        assert not [*kept.differences(reached, all_by_spark=number == ROUNDS - 1)], number
    assert interrupted > 2


def _interrupt(patched: pytest.MonkeyPatch, after: int) -> None:
    """End the keeper behind so many commits of views, at the latest before the cut."""
    left = [after]

    def write(*args: Any) -> Any:
        written = write_changes(*args)
        left[0] -= 1
        if left[0] == 0:
            raise KeeperEndedError
        return written

    def add_cut(*_: object) -> NoReturn:
        raise KeeperEndedError

    patched.setattr("cdc.views.upkeep.one_view.write_changes", write)
    patched.setattr(ViewStore, "add_cut", add_cut)
