"""Waits until every follower shows what is committed now, and does what the toolkit says in the meantime."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import cdc
from cdc.core.errors import CdcError, UnreachableError
from cdc.core.waiting import Deadline
from cdc.local import services
from cdc.torture.commands import FollowProcess, run_verb
from cdc.torture.remedies import NoRemedyError, Operator, find_command
from cdc.torture.site import TortureSite, find_down
from cdc.torture.tables import SHOWN
from cdc.torture.writers.writer import read_clock

SLICE_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 25.0
"""How long an operator waits before asking `cdc status`, and between two times."""
LIMIT_SECONDS: Final = 300.0


class Recovery:
    """Waits for the followers of a site. `limit`: seconds within which they have to come back."""

    def __init__(
        self, site: TortureSite, follow: FollowProcess, operator: Operator, limit: float = LIMIT_SECONDS
    ) -> None:
        self._site, self._follow, self._operator = site, follow, operator
        self._limit = limit

    def wait(self, say: Callable[[str], None], *, whole: bool = False) -> float:
        """Wait until all followers show all that is committed now; returns the seconds that this took.

        `whole`: also the table that migrates, whose copies have nothing to do with a fault.

        Raises NoRemedyError for a stop that nothing mends, UnreachableError when it takes too long.
        """
        began, deadline, patience = read_clock(), Deadline(self._limit), Deadline(PATIENCE_SECONDS)
        self._operator.start_over()
        with self._site.connect() as session:
            token = cdc.token(session)
        waiting = list(SHOWN)
        while waiting:
            self._keep_running(say)
            why = self._look(token, waiting, whole=whole)
            if waiting and deadline.is_past:
                raise UnreachableError(f"{', '.join(waiting)} did not come back within {self._limit:.0f} s: {why}")
            if waiting and patience.is_past:
                done = len(self._operator.done)
                self._ask_status(say)
                patience = Deadline(PATIENCE_SECONDS)
                # a copy takes its time, and each remedy is tried a few times only
                deadline = Deadline(self._limit) if len(self._operator.done) > done else deadline
        return read_clock() - began

    def mend(self, line: str, say: Callable[[str], None]) -> None:
        """Do what a line says."""
        say(f"told: {line}")
        with self._telling(say):
            self._operator.mend(line)

    @contextmanager
    def _telling(self, say: Callable[[str], None]) -> Iterator[None]:
        """Say what the operator does meanwhile."""
        before = len(self._operator.done)
        try:
            yield
        finally:
            for done in self._operator.done[before:]:
                say(f"done: {done}")

    def _keep_running(self, say: Callable[[str], None]) -> None:
        """Start what has ended, as a service manager does."""
        if down := find_down(self._site):
            services.up(self._site.home, set(down))
        if not self._follow.is_running:
            if (self._follow.code or 0) > 0:
                say(f"cdc follow ended with {self._follow.code}: {self._follow.error}")
            with self._telling(say):
                self._operator.mend_stop()

    def _look(self, token: str, waiting: list[str], *, whole: bool) -> str:
        """Remove from `waiting` who shows the token; returns why the next does not."""
        try:
            with cdc.open(self._site.config) as pipeline:
                while waiting:
                    names = () if whole else SHOWN[waiting[0]]
                    pipeline.wait(token, waiting[0], *names, seconds=SLICE_SECONDS)
                    del waiting[0]
        except CdcError as error:
            return str(error)
        return ""

    def _ask_status(self, say: Callable[[str], None]) -> None:
        """Do what `cdc status` says of the first problem that names what to do."""
        for line in filter(find_command, self._problems()):
            try:
                self.mend(line, say)
                return
            except NoRemedyError as failure:
                say(f"  {failure}")

    def _problems(self) -> list[str]:
        said = run_verb(self._site.config, "status", "--json")
        try:
            problems: dict[str, dict[str, Any]] = json.loads(said.stdout).get("problems", {})
        except ValueError:
            return []
        urgent = sorted(problems.values(), key=lambda each: each.get("order", 0))
        return [f"{each.get('why') or each['what']} → {each.get('remedy', '')}" for each in urgent]
