"""What Spark, Delta and the system raise, as one line of ours."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.core.context import SparkContext
from pyspark.errors import PySparkException

from cdc.core import errors
from cdc.core.errors import CdcError, PreconditionError, UnreachableError

LONGEST_LINE = 300
PYTHON_ERROR = re.compile(r"[A-Za-z_.]+(Error|Exception)\b.*:")
UNREACHABLE = ("TimeoutException", "DisconnectException", "Connection refused", "TimeoutError", "NoBrokersAvailable")
"""What Spark's Kafka source says, in the text of its failure, when the brokers do not answer."""
CDC_ERROR = re.compile(r"^cdc\.core\.errors\.(\w+): (.*?)(?: → (.*))?$", re.MULTILINE)
"""How a failure of ours ends the traceback of a task."""
LOG = re.compile(r"-Dcdc\.spark\.log=(\S+)")
"""Where a session of ours writes its log, among the options of its Java."""
FULL = ("No space left on device", "Disk quota exceeded")


class SparkEndedError(PreconditionError):
    """The Java of this process's Spark has ended: killed, perhaps by the kernel, for want of memory."""


def check_spark() -> SparkEndedError | None:
    """What to tell when the Java that this process has started has ended; None while it lives, or there is none."""
    # of a session under spark-submit, it is Java that has started us
    java = getattr(SparkContext._gateway, "proc", None)
    if java is None or java.poll() is None:
        return None
    how = f"by signal {-java.returncode}" if java.returncode < 0 else f"with exit code {java.returncode}"
    found = LOG.search(" ".join(java.args))
    return SparkEndedError(f"Spark's Java ended {how}{f' (see {found[1]})' if found else ''}", "start the same again")


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Raise what comes from Spark, Delta or the system as a CdcError that says what stopped.

    That whoever reads our output has gone is no failure of what is done: it stays a BrokenPipeError.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (PySparkException, Py4JError, DeltaError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise to_cdc_error(what, error) from error


def to_cdc_error(what: str, error: Exception) -> CdcError:
    """One line for a failure of `what`, by the text that came with it: Spark hands on no more than that."""
    if ended := check_spark():
        return ended
    text = str(error)
    if found := CDC_ERROR.search(text):
        kind: type[CdcError] = getattr(errors, found[1], CdcError)
        return kind(found[2], found[3] or "")
    line = _pick_line([line.strip() for line in text.splitlines() if line.strip()]) or type(error).__name__
    full = next((sign for sign in FULL if sign in text), None)
    if full:
        return PreconditionError(
            f"{what} stopped, a disk is full: {line if full in line else full}",
            "make room, then start it again: what is finished stays",
        )
    if any(sign in text for sign in UNREACHABLE):
        return UnreachableError(f"{what}: {line}", "are the log and the lake's store running?")
    return CdcError(f"{what} stopped: {line}", "what is finished stays; mend the cause, then start it again")


def _pick_line(lines: list[str]) -> str:
    """The line of a failure that says most: the innermost cause, the end of a Python traceback, or the first line."""
    causes = [line for line in lines if line.startswith("Caused by:")]
    if causes:
        return causes[-1].removeprefix("Caused by: ")[:LONGEST_LINE]
    if any(line.startswith("Traceback") for line in lines):
        return next((line for line in reversed(lines) if PYTHON_ERROR.match(line)), lines[-1])[:LONGEST_LINE]
    return lines[0][:LONGEST_LINE] if lines else ""
