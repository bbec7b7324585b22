"""One comparison's trouble is its own: the others are compared, and the report says which could not be."""

from collections.abc import Callable
from typing import TypeVar

from cdc.core.containment import contain_errors
from cdc.core.errors import CdcError, PreconditionError
from cdc.run.spark.errors import check_spark
from cdc.run.verify.report import Verdict

_Found = TypeVar("_Found")


def compare_alone(what: str, compare: Callable[[], _Found]) -> _Found | Verdict:
    """The verdict of a comparison, whatever error it meets; `what` is compared.

    Raises what concerns all comparisons: a part that does not answer, a full disk, Spark's end.
    """
    reasons, remedy = list[str](), "see `cdc status`"
    with contain_errors(f"the comparison of {what}", reasons.append, check_spark):
        try:
            return compare()
        except CdcError as error:
            remedy = error.remedy or remedy
            raise
    return Verdict(None, stopped=PreconditionError(f"{what} cannot be compared: {reasons[0]}", remedy))
