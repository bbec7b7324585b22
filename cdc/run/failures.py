"""What Spark, Delta and the system raise, as one line of ours."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from cdc.core import errors
from cdc.core.errors import CdcError, PreconditionError, UnreachableError

LONGEST_LINE = 300
PYTHON_ERROR = re.compile(r"[A-Za-z_.]+(Error|Exception)\b.*:")
UNREACHABLE = ("TimeoutException", "DisconnectException", "Connection refused", "TimeoutError", "NoBrokersAvailable")
"""What Spark's Kafka source says, in the text of its failure, when the brokers do not answer."""
OURS = re.compile(r"^cdc\.core\.errors\.(\w+): (.*?)(?: → (.*))?$", re.MULTILINE)
"""How a failure of ours ends the traceback of a task."""
FULL = ("No space left on device", "Disk quota exceeded")


@contextmanager
def failures_of(what: str) -> Iterator[None]:
    """Raise what comes from Spark, Delta or the system as a CdcError that says what stopped.

    That whoever reads our output has gone is no failure of what is done: it stays a BrokenPipeError.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (PySparkException, Py4JError, DeltaError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise ours(what, error) from error


def ours(what: str, error: Exception) -> CdcError:
    """One line for a failure of `what`, by the text that came with it: Spark hands on no more than that."""
    text = str(error)
    if found := OURS.search(text):
        kind: type[CdcError] = getattr(errors, found[1], CdcError)
        return kind(found[2], found[3] or "")
    line = _telling([line.strip() for line in text.splitlines() if line.strip()]) or type(error).__name__
    full = next((sign for sign in FULL if sign in text), None)
    if full:
        return PreconditionError(
            f"{what} stopped, a disk is full: {line if full in line else full}",
            "make room, then start it again: what is finished stays",
        )
    if any(sign in text for sign in UNREACHABLE):
        return UnreachableError(f"{what}: {line}", "are the log and the lake's store running?")
    return CdcError(f"{what} stopped: {line}", "what is finished stays; mend the cause, then start it again")


def _telling(lines: list[str]) -> str:
    """The line of a failure that says most: the innermost cause, the end of a Python traceback, or the first line."""
    causes = [line for line in lines if line.startswith("Caused by:")]
    if causes:
        return causes[-1].removeprefix("Caused by: ")[:LONGEST_LINE]
    if any(line.startswith("Traceback") for line in lines):
        return next((line for line in reversed(lines) if PYTHON_ERROR.match(line)), lines[-1])[:LONGEST_LINE]
    return lines[0][:LONGEST_LINE] if lines else ""
