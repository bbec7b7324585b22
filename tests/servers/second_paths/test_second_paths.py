"""Every feature after everything that may happen to it: the table of `cells.py`, on real servers.

One pipeline goes through all of it, in a folder whose path has a blank. After each round every feature is asked. With
`--further`, they are asked after each single thing, twice, in a random order (`CDC_TEST_SEED` for another).
"""

import os
import random
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.servers.second_paths.cells import BY_ROWS, ROUNDS
from tests.servers.second_paths.everything import Everything, make_plain
from tests.servers.second_paths.happenings import HAPPENINGS, join_later, stop_and_mend
from tests.support.parts.pipelines import MakePipeline

pytestmark = pytest.mark.timeout(1200)
SEED = int(os.environ.get("CDC_TEST_SEED", "1"))


def make_everything(make: MakePipeline, spark: SparkSession, folders: pytest.TempPathFactory) -> Iterator[Everything]:
    """A pipeline of one table, in which there is something to follow."""
    with pytest.MonkeyPatch.context() as patched, pytest.MonkeyPatch.context() as without_jar:
        made = Everything(make_plain(make), spark, folders.mktemp("streams"), without_jar)
        made.pipeline.set_environ(patched)
        made.bootstrap()
        made.write()
        yield made


@pytest.fixture(scope="module")
def followed(
    make_shared_pipeline: MakePipeline, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Everything]:
    yield from make_everything(make_shared_pipeline, spark, tmp_path_factory)


@pytest.mark.parametrize("round", ROUNDS)
def test_every_feature_holds_after(followed: Everything, quicker: None, round: str) -> None:
    """The rounds come in their order: all features join in the first."""
    for name in ROUNDS[round]:
        HAPPENINGS[name](followed)
    followed.check(by_rows=round in BY_ROWS)


@pytest.mark.further
@pytest.mark.timeout(3600)
def test_every_feature_holds_in_any_order(followed: Everything, quicker: None) -> None:
    """The pipeline of the rounds before goes on; alone, all features join first."""
    if not followed.pipeline.settings.views:
        join_later(followed)
    further = {**HAPPENINGS, stop_and_mend.__name__: stop_and_mend}
    del further[join_later.__name__]
    order = [*further, *further]
    random.Random(SEED).shuffle(order)
    for number, name in enumerate(order):
        further[name](followed)
        try:
            followed.check()
        except Exception as error:
            raise AssertionError(f"seed {SEED}, after {', '.join(order[: number + 1])}") from error
