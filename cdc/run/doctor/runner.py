"""Runs checks beside each other, each with its time limit: one that fails or hangs keeps no other from its answer."""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cdc.core.errors import CdcError, SeveralErrors, UnreachableError
from cdc.core.waiting import Deadline
from cdc.run.doctor.asking import SilentPartError
from cdc.run.doctor.check import Check, Fault, Severity, registered_checks
from cdc.run.doctor.parts import AskedParts

_ORDER: Final = [*Severity]


class SeveralSilentError(SeveralErrors, UnreachableError):
    """Several parts do not answer."""

    exit_code = UnreachableError.exit_code


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that a check has found."""

    check: str
    severity: Severity
    why: str
    problem: Fault

    def as_json(self) -> dict[str, Any]:
        found = self.problem
        return {
            "check": self.check,
            "severity": self.severity,
            "object": found.object,
            "what": found.what,
            "why": self.why,
            "remedy": found.remedy,
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a doctor has found: errors first, each group in the order of the checks."""

    findings: Sequence[Finding]
    checks: int
    seconds: float

    def of(self, severity: Severity) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity is severity]

    @property
    def errors(self) -> list[CdcError]:
        return [finding.problem.to_error() for finding in self.of(Severity.ERROR)]

    @property
    def error(self) -> CdcError | None:
        """What a verb ends with that meets this: the one error, or all of them; None without one."""
        if len(errors := self.errors) < 2:
            return errors[0] if errors else None
        # several parts that do not answer may all do so later
        kinds = {type(error) for error in errors}
        return SeveralSilentError(errors) if kinds == {UnreachableError} else SeveralErrors(errors)

    @property
    def exit_code(self) -> int:
        """That of the first error; 0 without one."""
        return next((finding.problem.kind.exit_code for finding in self.of(Severity.ERROR)), 0)

    def as_json(self) -> dict[str, Any]:
        return {"checks": self.checks, "findings": [finding.as_json() for finding in self.findings]}


def examine(parts: AskedParts, checks: Sequence[Check]) -> Diagnosis:
    """Run these checks beside each other. Takes as long as the one with the longest time limit, at most."""
    began = time.monotonic()
    running = [_Running(check, parts) for check in checks]
    for each in running:
        each.thread.start()
    known = {check.name: check for check in registered_checks()}
    found = [finding for each in running for finding in each.wait(known)]
    # several checks that ask one silent part find the same
    once = {(finding.check, finding.problem.what): finding for finding in found}
    ordered = sorted(once.values(), key=lambda finding: _ORDER.index(finding.severity))
    return Diagnosis(ordered, len(checks), time.monotonic() - began)


class _Running:
    """A check on a thread of its own, which nobody waits for beyond its time limit."""

    def __init__(self, check: Check, parts: AskedParts) -> None:
        self._check, self._parts = check, parts
        self._problems: Sequence[Fault] | None = None
        self._error: BaseException | None = None
        self._seconds = check.seconds * parts.patience
        self._deadline = Deadline(self._seconds)
        self.thread = threading.Thread(target=self._run, name=check.name, daemon=True)

    def wait(self, known: Mapping[str, Check]) -> Iterable[Finding]:
        self.thread.join(self._deadline.seconds_left)
        match self._error:
            case SilentPartError() as silent:
                yield _to_finding(known[silent.check], Fault.of(silent.about, silent.error))
            case CdcError() as error:
                yield _to_finding(self._check, Fault.of(self._check.category, error))
            case BaseException() as error:
                what = f"check {self._check.name} has failed: {type(error).__name__}"
                yield _to_finding(self._check, Fault(self._check.category, what, "report it: a bug of cdc"))
            case None if self._problems is None:
                what = f"check {self._check.name} has no answer after {self._seconds:.0f} s"
                kind = UnreachableError
                yield _to_finding(self._check, Fault(self._check.category, what, "is the part busy?", kind=kind))
        for problem in self._problems or ():
            yield _to_finding(self._check, problem)

    def _run(self) -> None:
        try:
            self._problems = [*self._check.look(self._parts)]
        except BaseException as error:  # noqa: BLE001 - a finding is made of it
            self._error = error


def _to_finding(check: Check, problem: Fault) -> Finding:
    return Finding(check.name, check.severity, check.why, problem)


def list_bootstrap_checks(leave_out: Iterable[str] = ()) -> list[Check]:
    """The errors that a bootstrap runs before it makes anything; without these checks and categories."""
    return [
        check
        for check in registered_checks()
        if check.severity is Severity.ERROR and check.at_bootstrap and not {check.name, check.category} & {*leave_out}
    ]


def select_checks(names: Sequence[str]) -> list[Check]:
    """The checks of these names and categories; all if there are none."""
    return [check for check in registered_checks() if not names or {check.category, check.name} & {*names}]
