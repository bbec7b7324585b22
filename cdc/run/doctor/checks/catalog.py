"""The catalog in which tables are registered."""

from collections.abc import Iterator

from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.parts import AskedParts


@check("catalog.kept", Severity.WARNING, "who looks for tables by name finds them as they were; the lake goes on")
def find_trouble(parts: AskedParts) -> Iterator[Fault]:
    """The newest look of `cdc follow` at the catalog has registered all tables."""
    if (report := parts.catalog) and (problem := report.find_problem()):
        yield Fault("catalog", problem.what, problem.remedy)
