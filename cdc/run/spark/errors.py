"""Translates failures of Spark, Delta and the system into one-line errors of the toolkit."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import TimeoutExpired

import asyncpg
import psycopg
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.core.context import SparkContext
from pyspark.errors import PySparkException

from cdc.core import errors
from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.core.text.error_text import pick_root_cause
from cdc.postgres import errors as postgres_errors
from cdc.run.spark.java_logs import find_log

UNREACHABLE = (
    "TimeoutException",
    "DisconnectException",
    "Connection refused",
    "TimeoutError",
    "NoBrokersAvailable",
    # a topic that is gone is named at the next try
    "UnknownTopicOrPartitionException",
)
"""Signs, in the text of a failure of Spark's Kafka source, that the brokers do not answer."""
CDC_ERROR = re.compile(r"^cdc\.core\.errors\.(\w+): (.*?)(?: → (.*))?$", re.MULTILINE)
"""The last line of a task's traceback when the task raised a CdcError."""
ENDING_SECONDS = 5.0
FULL = ("No space left on device", "Disk quota exceeded")


class SparkEndedError(PreconditionError):
    """The Java of this process's Spark has ended; the kernel may have killed it for lack of memory."""


def check_spark() -> SparkEndedError | None:
    """The error when the Java that this process started has ended; None while it runs, or when there is none."""
    # under spark-submit, Java has started this process, and there is nothing to poll
    java = getattr(SparkContext._gateway, "proc", None)
    if java is None or java.poll() is None:
        return None
    how = f"by signal {-java.returncode}" if java.returncode < 0 else f"with exit code {java.returncode}"
    log = find_log(java)
    return SparkEndedError(f"Spark's Java ended {how}{f' (see {log})' if log else ''}", "start the same again")


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Raise errors of Spark, Delta, Postgres's drivers and the system as a CdcError. `what`: the work that stops.

    A BrokenPipeError stays one: it says that the reader of our output has gone, and nothing of the work.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (asyncpg.PostgresError, psycopg.Error) as error:
        raise postgres_errors.to_cdc_error(what, error.sqlstate, error) from error
    except (PySparkException, Py4JError, DeltaError, OSError, asyncpg.InterfaceError) as error:
        raise to_cdc_error(what, error) from error


def _await_end(error: Exception) -> None:
    """Wait a moment for Java's end where py4j has lost it: a connection ends before its process has."""
    java = getattr(SparkContext._gateway, "proc", None)
    if java is not None and isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        with suppress(TimeoutExpired):
            java.wait(ENDING_SECONDS)


def to_cdc_error(what: str, error: Exception) -> CdcError:
    """Translate a failure of `what` by its text, since Spark hands on no more than that."""
    # first of all: with Java gone, the text is only py4j's complaint of a lost connection
    _await_end(error)
    if ended := check_spark():
        return ended
    text = str(error)
    # an error that a task raised as ours arrives as the last line of its traceback: made one of ours again
    if ours := CDC_ERROR.search(text):
        kind: type[CdcError] = getattr(errors, ours[1], CdcError)
        return kind.from_text(ours[2], ours[3] or "")
    line = pick_root_cause(text) or type(error).__name__
    full = next((sign for sign in FULL if sign in text), None)
    if full:
        return PreconditionError(
            f"{what} stopped, a disk is full: {line if full in line else full}",
            "make room, then start it again: what is finished stays",
        )
    if any(sign in text for sign in UNREACHABLE):
        return UnreachableError(f"{what}: {line}", "are the log and the lake's store running?")
    return CdcError(f"{what} stopped: {line}", "what is finished stays; mend the cause, then start it again")
