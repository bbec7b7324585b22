"""Random statements under random changes: a refresh by keys gives what Spark gives over everything, twice the same."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp

from cdc.core.errors import ConfigurationError
from cdc.views.statement.entrance.allowed_nodes import KNOWN
from cdc.views.statement.entrance.functions import (
    AGGREGATE_NAMES,
    OPAQUE_CLASSES,
    OPAQUE_NAMES,
    PURE_CLASSES,
    PURE_NAMES,
    REFUSED,
)
from cdc.views.statement.entrance.kinds import kind_of
from cdc.views.statement.parsing import parse_query
from tests.support.further import further
from tests.support.views.trial_runs import find_wrong

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


def test_every_function_of_spark_is_in_a_set(spark: SparkSession) -> None:
    """A new one of a new Spark is looked at before anybody uses it."""
    names = {each.name for each in spark.catalog.listFunctions() if each.name.isidentifier()}
    assert len(names) > 500
    assert {name for name in names if not any(map(is_known, read_calls(name)))} <= NO_CALLS


NO_CALLS = {"between", "case", "cast", "in", "when"}
"""Operators, which Spark lists with its functions."""


def is_known(node: exp.Expr) -> bool:
    names = PURE_NAMES | AGGREGATE_NAMES | OPAQUE_NAMES
    return kind_of(node) in REFUSED.keys() | PURE_CLASSES | OPAQUE_CLASSES | KNOWN.keys() | names


def read_calls(name: str) -> Iterator[exp.Expr]:
    """A function's calls with any number of arguments that sqlglot takes."""
    for count in range(4):
        with suppress(ConfigurationError):
            yield parse_query("v", f"SELECT {name}({', '.join('xyz'[:count])}) FROM t").selects[0].unalias()
