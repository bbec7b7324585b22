"""Random statements under random changes: what a refresh by keys makes of them is what DuckDB makes of everything.

tests/spark/test_random_statements.py asks Spark the same, also of what DuckDB may not evaluate.
"""

import os

import pytest

from tests.support.further import further
from tests.support.views.trial_runs import find_wrong_in_duckdb

FIRST = int(os.environ.get("CDC_TEST_SEED", "0"))


@pytest.mark.parametrize("seeds", [range(FIRST, FIRST + 150), further("more", range(FIRST + 150, FIRST + 3150))])
def test_a_refresh_is_the_statement_over_everything(seeds: range) -> None:
    """Further: more of the same grammar."""
    compared, wrong = find_wrong_in_duckdb(seeds)
    assert not wrong, "\n".join(wrong)
    assert compared > len(seeds) // 3
