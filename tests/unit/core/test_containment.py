"""One thing's trouble stops that thing, and nothing else."""

import errno
import logging
import re
import runpy

import pytest

from cdc.core import containment
from cdc.core.containment import LOG, contain_errors, describe_error
from cdc.core.errors import PreconditionError, RefusedError, UnreachableError


def stop_by(error: BaseException, shared: Exception | None = None) -> list[str]:
    """The reasons for which the thing stops that meets this error."""
    reasons = list[str]()
    with contain_errors("view a.b", reasons.append, lambda: shared):
        raise error
    return reasons


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PreconditionError("it has no key", "give it one"), "it has no key"),
        (StopIteration(), "an error that cdc does not know (test_containment.py): StopIteration"),
        (ValueError("two\n lines"), "an error that cdc does not know (test_containment.py): ValueError: two lines"),
        (RecursionError("deep"), "an error that cdc does not know (test_containment.py): RecursionError: deep"),
        (
            OSError(errno.EIO, "broken"),
            "an error that cdc does not know (test_containment.py): OSError: [Errno 5] broken",
        ),
    ],
    ids=["ours", "without a text", "two lines", "recursion", "a file"],
)
def test_any_error_of_one_thing_is_one_line(error: Exception, reason: str) -> None:
    assert [re.sub(r"py:\d+", "py", each) for each in stop_by(error)] == [reason]


@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("the store does not answer"),
        RefusedError("another process"),
        OSError(errno.ENOSPC, "full"),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_concerns_all_things_stops_none_of_them(error: BaseException) -> None:
    with pytest.raises(type(error)):
        stop_by(error)


def test_an_error_after_which_all_would_fail_is_the_shared_one() -> None:
    with pytest.raises(PreconditionError, match="Java ended"):
        stop_by(ValueError("a lost connection"), PreconditionError("Java ended"))


def test_the_log_has_the_traceback() -> None:
    records = list[logging.LogRecord]()
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign, assignment]
    LOG.addHandler(handler)
    try:
        stop_by(KeyError("x"))
    finally:
        LOG.removeHandler(handler)
    [record] = records
    assert record.exc_info
    assert "view a.b" in record.getMessage()


def test_an_error_of_spark_is_told_in_its_own_words() -> None:
    from pyspark.errors import AnalysisException

    assert describe_error(AnalysisException("[NO_SUCH] no column; line 1\n'Project")) == "[NO_SUCH] no column; line 1"


def test_the_log_is_a_plain_one_whatever_class_others_get() -> None:
    """PySpark sets the class of all loggers for a moment; imported in that moment, ours would write JSON."""
    usual = logging.getLoggerClass()
    logging.setLoggerClass(type("Other", (usual,), {}))
    try:
        imported = runpy.run_path(containment.__file__)
    finally:
        logging.setLoggerClass(usual)
    assert type(imported["LOG"]) is logging.Logger
