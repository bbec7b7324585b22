"""Spark, which copies tables and takes in what is too large for one process."""

import sys
from collections.abc import Iterator
from typing import Final

from cdc.config.spark_settings import is_local
from cdc.local.fetch.artifacts import artifacts_for, split
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.parts import AskedParts

_OF_JARS: Final = {"pyspark": "org.apache.spark:spark-sql-kafka", "delta-spark": "io.delta:delta-spark"}
"""Package → how the coordinate of a jar begins that has its version."""
_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@check("spark.java", Severity.ERROR, "it runs Spark")
def find_no_java(parts: AskedParts) -> Iterator[Fault]:
    """There is a whole Java 17 or newer."""
    if error := parts.machine.java_error:
        yield Fault.of("java", error)


@check("spark.versions", Severity.ERROR, "classes of one version call those of another, and fail or misread")
def find_mismatch(parts: AskedParts) -> Iterator[Fault]:
    """pyspark, delta-spark and their jars belong together."""
    coordinates = [artifact.coordinate for artifact in artifacts_for("spark")]
    for package, begins in _OF_JARS.items():
        version = next(split(each)[2] for each in coordinates if each.startswith(begins))
        if (found := parts.machine.packages.get(package)) != version:
            what = f"{package} is {found or 'not installed'}, and its jars are for {version}"
            yield Fault(package, what, f"pip install {package}=={version}")


@check("spark.workers", Severity.ERROR, "tasks end with an error of imports, or of pickles", at_bootstrap=False)
def find_other_python(parts: AskedParts) -> Iterator[Fault]:
    """`spark.python` is of our version, and has what our tasks import."""
    found = parts.worker_python
    if found is None:
        return
    ours = sys.version_info[:2]
    if found.version != ours:
        told, wanted = (".".join(map(str, version)) for version in (found.version, ours))
        what = f"spark.python {found.path} is a Python {told}, and ours is {wanted}"
        yield Fault("spark.python", what, f"name a Python {wanted}, or leave spark.python out")
    elif found.lacking:
        names = ", ".join(found.lacking)
        remedy = f"{found.path} -m pip install {' '.join(found.lacking)}"
        yield Fault("spark.python", f"spark.python {found.path} lacks {names}", remedy)


@check("spark.jars", Severity.NOTE, "they are fetched when Spark starts next, which takes the network and its time")
def find_missing_jars(parts: AskedParts) -> Iterator[Fault]:
    """Spark's jars are in the cache."""
    if lacking := parts.machine.lacking_jars:
        yield Fault("jars", f"{len(lacking)} jars are not in the cache, or cut off", "`cdc follow` fetches them")


@check("spark.memory", Severity.WARNING, "the machine swaps, or ends the process")
def find_little_memory(parts: AskedParts) -> Iterator[Fault]:
    """What `spark.driver_memory` asks for is free."""
    spark = parts.settings.spark
    asked = _to_bytes(spark.driver_memory)
    if is_local(spark.master) and asked > parts.machine.memory_bytes:
        what = f"spark.driver_memory is {spark.driver_memory}, and {parts.machine.memory_bytes >> 20:,} MiB are free"
        yield Fault("spark.driver_memory", what, "lower it, or end what else runs here")


def _to_bytes(text: str) -> int:
    return int(text[:-1]) * _UNITS[text[-1].lower()] if text[-1:].isalpha() else int(text)
