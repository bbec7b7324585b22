"""Random statements under random changes: a refresh by keys gives what Spark gives over everything, twice the same."""

import os
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from tests.support.further import further
from tests.support.views.trials import find_wrong

FIRST = int(os.environ.get("CDC_TEST_SEED", "0"))


@pytest.mark.parametrize(
    "seeds",
    [pytest.param(range(FIRST, FIRST + 50), id="fifty"), further("a thousand", range(FIRST + 50, FIRST + 1050))],
)
def test_a_view_is_its_statement(spark: SparkSession, seeds: Sequence[int]) -> None:
    """Further: more of the same grammar."""
    compared, wrong = find_wrong(spark, seeds)
    assert not wrong, "\n".join(wrong)
    assert compared > len(seeds) // 2
