"""The Python of a cluster's workers: checks that it has what our tasks import.

Workers get this module from the toolkit's zip, so nothing that it imports there is beside the standard library.
"""

import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from cdc.core.errors import PreconditionError
from cdc.core.text.error_text import pick_root_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final[Mapping[str, str]] = {
    "asyncpg": "asyncpg",
    "awkward": "awkward",
    "confluent_kafka": "confluent-kafka",
    "deltalake": "deltalake",
    "duckdb": "duckdb",
    "msgspec": "msgspec",
    "obstore": "obstore",
    "opensearchpy": "opensearch-py",
    "pandas": "pandas",
    "psycopg": "psycopg[binary]",
    "pyarrow": "pyarrow",
    "pydantic": "pydantic",
    "pyroaring": "pyroaring",
    "sqlglot": "sqlglot",
    "stamina": "stamina",
    "uvloop": "uvloop",
}
"""What tasks import on workers, by module: the package that has it."""


def check_workers(spark: "SparkSession") -> None:
    """Raise PreconditionError if a worker's Python does not run, or lacks a package."""
    for where, lacking in sorted(set(_ask(spark))):
        if lacking:
            names = ", ".join(lacking)
            raise PreconditionError(f"the Python of {where} lacks {names}", f"install {names} there, for spark.python")


def _ask(spark: "SparkSession") -> list[tuple[str, tuple[str, ...]]]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context = spark.sparkContext
    # a task for each core; a worker that runs two answers twice
    tasks = max(context.defaultParallelism, 2)
    try:
        return context.parallelize(range(tasks), tasks).mapPartitions(_find_lacking).collect()
    except (Py4JError, PySparkException) as error:
        ours = ".".join(platform.python_version_tuple()[:2])
        raise PreconditionError(
            f"{context.pythonExec} does not run on the workers: {pick_root_cause(str(error))}",
            f"name in spark.python a Python {ours} that is there",
        ) from error


def _find_lacking(_: Iterable[int]) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield platform.node(), tuple(package for module, package in PACKAGES.items() if not _is_there(module))


def _is_there(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True
