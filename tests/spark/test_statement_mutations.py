"""The random statements find each defect of the readings: it is put back, and one of the first statements shows it."""

import pytest
from pyspark.sql import SparkSession

from tests.support.further import further
from tests.support.views.mutation_hunt import find_mutation
from tests.support.views.mutations import MUTATIONS

MOST = 600
SOON = "B2 every value is null without its row"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("finding", "most"),
    [pytest.param(SOON, 60, id=SOON), *(further(name, name, MOST) for name in MUTATIONS if name != SOON)],
)
def test_a_defect_is_found(spark: SparkSession, finding: str, most: int) -> None:
    """Further: the other defects, some seconds each."""
    assert find_mutation(spark, finding, range(most))
