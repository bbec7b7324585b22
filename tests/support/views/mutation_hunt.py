"""Looks for the first random statement that shows a defect which was put back."""

from collections.abc import Iterator, Sequence
from functools import cache

import pytest
from pyspark.sql import SparkSession

from tests.support.views.mutations import MUTATIONS, OF_CHANGES, SELDOM
from tests.support.views.statements.statement_checks import find_trouble, read_statement
from tests.support.views.trial_runs import describe, run_in_duckdb, run_trials
from tests.support.views.trials import make_trials, random_statement

_AT_ONCE = 3
"""Statements of one query to Spark: the first ones often show it."""
_HISTORIES = 3
_MANY_HISTORIES = 600
"""For what few changes show; in DuckDB, which takes milliseconds."""


def find_mutation(spark: SparkSession, finding: str, seeds: Sequence[int]) -> tuple[int, str] | None:
    """The first seed whose statement shows this defect, and what is wrong; None if none does."""
    right = {seed: _read(seed) for seed in seeds}
    with pytest.MonkeyPatch.context() as patch:
        MUTATIONS[finding](patch)
        suspects = list[int]()
        for seed in seeds:
            statement = random_statement(seed)
            if trouble := find_trouble(statement, read_statement(statement)):
                return seed, trouble
            is_suspect = " f " in statement.sql if finding in OF_CHANGES else _read.__wrapped__(seed) != right[seed]
            suspects += [seed] if is_suspect else []
            if len(suspects) == _AT_ONCE or (suspects and seed == seeds[-1]):
                for why in _try_changes(suspects) if finding in SELDOM else _try(spark, suspects):
                    return int(why.split(".")[0].removeprefix("seed ")), why
                suspects.clear()
    return None


def _try(spark: SparkSession, seeds: Sequence[int]) -> Iterator[str]:
    return describe(run_trials(spark, [trial for seed in seeds for trial in make_trials(seed, _HISTORIES)]))


def _try_changes(seeds: Sequence[int]) -> Iterator[str]:
    trials = [trial for seed in seeds for trial in make_trials(seed, _MANY_HISTORIES)]
    return describe(run_in_duckdb([trial for trial in trials if trial.touched is not None]))


@cache
def _read(seed: int) -> tuple[str, str, str]:
    """What the product makes of a statement, as texts."""
    found = read_statement(random_statement(seed))
    return (found.refused, *((repr(found.view.plan), repr(found.view.duckdb)) if found.view else ("", "")))
