"""The proof: every row equal at one LSN, every chain whole, and no reader who saw what cannot be."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from cdc.core.errors import DivergenceError, PreconditionError
from cdc.torture.checks.prefixes import find_hole
from cdc.torture.checks.registers import find_violation
from cdc.torture.commands import Said, run_verb
from cdc.torture.matches import prove_matches
from cdc.torture.readers import Witnesses
from cdc.torture.recovery import Recovery
from cdc.torture.remedies import find_command
from cdc.torture.site import TortureSite
from cdc.torture.writers.histories import JournalWriter, RegisterWriter
from cdc.torture.writers.writer import Writers

TRIES: Final = 4
WAIT_SECONDS: Final = "240"
DIFFERENT: Final = DivergenceError.exit_code
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Proof:
    """What was compared: tables of followers, all equal."""

    lsn: str
    tables: int


def prove_equal(site: TortureSite, recovery: Recovery, say: Say) -> Proof:
    """Compare every row of every follower, view and history at one LSN, and check the chains.

    Nothing may be written meanwhile. A table that has stopped with a remedy is mended first. Raises DivergenceError
    for a difference, and what `recovery` raises.
    """
    for _ in range(TRIES):
        recovery.wait(say, whole=True)
        said = run_verb(site.config, "verify", "--json", "--wait", WAIT_SECONDS)
        if not said.code:
            _check_chains(site)
            prove_matches(site)
            report = json.loads(said.stdout)
            return Proof(report["lsn"], sum(len(tables) for tables in report["followers"].values()))
        if said.code == DIFFERENT:
            raise DivergenceError(f"cdc verify finds a difference: {_describe(said)}")
        say(f"cdc verify ended with {said.code}: {said.error}")
        for line in _reasons(said):
            if find_command(line):
                recovery.mend(line, say)
    raise PreconditionError(f"cdc verify could not compare everything: {_describe(said)}")


def _check_chains(site: TortureSite) -> None:
    said = run_verb(site.config, "verify", "--chain", "--json")
    if said.code == DIFFERENT:
        raise DivergenceError(f"the chain of a history is broken: {said.error}")
    if said.code:
        raise PreconditionError(f"the chains of histories could not be checked: {said.error}")


def _describe(said: Said) -> str:
    """The tables that are not equal, with counts; never a row's value."""
    try:
        report = json.loads(said.stdout)
    except ValueError:
        return said.error
    found = [f"{who} {table} {_count(verdict)}" for who, table, verdict in _unequal(report)]
    return "; ".join([*found, *report["stopped"].values(), *report["incomparable"].values()]) or said.error


def _unequal(report: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for follower, tables in report["followers"].items():
        for table, verdict in tables.items():
            if verdict["verdict"] != "equal":
                yield follower, table, verdict


def _count(verdict: dict[str, Any]) -> str:
    counts = {name: verdict[name] for name in ("missing", "extra", "differing", "twice") if verdict.get(name)}
    return f"{verdict['verdict']} {counts or verdict.get('reason', '')}".rstrip()


def _reasons(said: Said) -> list[str]:
    """Why tables were not compared, each with its remedy."""
    try:
        report = json.loads(said.stdout)
    except ValueError:
        return [said.error]
    stops = [verdict["reason"] for _, _, verdict in _unequal(report) if "reason" in verdict]
    return [*report["stopped"].values(), *report["incomparable"].values(), *stops]


def prove_histories(writers: Writers, readers: Witnesses) -> None:
    """Check what all readers saw against what was written. Raises DivergenceError for what cannot be."""
    readers.check()
    writers.check()
    if readers.silent:
        raise PreconditionError(f"who reads {', '.join(readers.silent)} never got an answer")
    history = [operation for each in writers.writers if isinstance(each, RegisterWriter) for operation in each.history]
    history += [operation for reader in readers.readers for operation in reader.history]
    journals = {each.place: each.journal for each in writers.writers if isinstance(each, JournalWriter)}
    broken = [reader.broken for reader in readers.readers]
    broken += [find_violation(history, 0), *(find_hole(journals, each.sightings) for each in readers.readers)]
    if found := next(filter(None, broken), None):
        raise DivergenceError(found)
