"""What DuckDB evaluates for views means the same in Spark, value by value."""

import pytest
from pyspark.sql import SparkSession

from tests.support.views.two_engines import Engines


def arity(form: str) -> int:
    import re

    found = set(re.findall(r"\b[abc]\b", re.sub(r"'[^']*'", "", form)))
    return max((ord(each) - ord("a") + 1 for each in found), default=1)


@pytest.fixture(scope="module")
def engines(spark: SparkSession) -> Engines:
    return Engines(spark)
