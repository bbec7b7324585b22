"""What an operator does who reads a line of `cdc` and follows it to the letter."""

import re
import shlex
from collections import Counter
from typing import Final

from cdc.core.errors import CdcError, PreconditionError, RefusedError
from cdc.torture.commands import FollowProcess, Said, run_verb
from cdc.torture.site import TortureSite

MOST: Final = 3
"""How often the same remedy is tried before it counts as none."""
_COMMAND: Final = re.compile(r"`cdc ([^`]+)`")
ASKING: Final = {"recapture"}
"""Verbs that ask before they begin."""
DOING: Final = {"bootstrap", "recapture", "resume", "restart", "repair", "rebuild", "up", "dead-letters"}
"""Verbs of remedies that do something."""
_AGAIN: Final = re.compile(r"start it again|start again|try again|run it again|`cdc follow`|see `cdc|make room|free")
_STOP_FIRST: Final = re.compile(r" → .*\bstop\b")
"""A verb is refused while somebody follows."""


class NoRemedyError(PreconditionError):
    """Something stopped for good, and its line says nothing that helps, or what it says does not help."""


def find_command(line: str) -> list[str] | None:
    """The words of the first verb in a remedy that does something; None if it names none."""
    # what happened may name verbs, too: the remedy stands behind the arrow
    _, _, remedy = line.partition(" → ")
    for found in _COMMAND.findall(remedy or line):
        words = shlex.split(found)
        if words[0] in DOING:
            return words
    return None


class Operator:
    """Follows remedies. `done`: all that was done, as a line each."""

    def __init__(self, site: TortureSite, follow: FollowProcess) -> None:
        self._site, self._follow = site, follow
        self._tries = Counter[str]()
        self.done: list[str] = []

    def start_over(self) -> None:
        """Another fault: a remedy may help again."""
        self._tries.clear()

    def mend_stop(self) -> None:
        """`cdc follow` has ended: do what its last line says, and start it again.

        Raises NoRemedyError if it says nothing that helps.
        """
        # below 0: killed, and there is no line
        if (self._follow.code or 0) > 0:
            self.mend(self._follow.error)
        self._follow.start()

    def mend(self, line: str) -> None:
        """Do what a line says. Raises NoRemedyError if it says nothing that helps, or has not helped before."""
        words = find_command(line)
        # a line may have a time in it, which is another each time
        self._tries[what := shlex.join(words) if words else line] += 1
        if self._tries[what] > MOST:
            raise NoRemedyError(f"what `cdc` says does not help: {line}")
        if words is None:
            if not _AGAIN.search(line):
                raise NoRemedyError(f"`cdc` names no remedy: {line or 'it says nothing'}")
            return
        if "stop `cdc follow`" in line:
            self._follow.stop()
        try:
            self._run(words)
        finally:
            self._follow.start()

    def _run(self, words: list[str]) -> None:
        said = self._run_verb(words)
        if said.code == RefusedError.exit_code and _STOP_FIRST.search(said.error):
            self._follow.stop()
            said = self._run_verb(words)
        if said.code:
            # a verb that fails has a remedy itself
            self.mend(said.error)

    def _run_verb(self, words: list[str]) -> Said:
        said = run_verb(self._site.config, *words, *(["--yes"] if words[0] in ASKING else []))
        ended = f" ended with {said.code}: {said.error}" if said.code else ""
        self.done.append(f"cdc {shlex.join(words)}{ended}")
        return said


def as_error(failure: BaseException) -> CdcError:
    """A failure as the command line tells it."""
    return failure if isinstance(failure, CdcError) else PreconditionError(f"{type(failure).__name__}: {failure}")
