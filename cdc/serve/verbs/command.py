"""Runs a verb as the command line does, in a process of its own: its Spark and its memory go with it."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from cdc.core.errors import CdcError
from cdc.serve.verbs.question import Lines

MOST_LINES: Final = 20
DIFFERS: Final = 5
"""The exit code of followers that differ: an answer, not a failure."""


class CommandFailedError(CdcError):
    """A verb of the command line has ended with an error, which is its text."""


def run_command(config: Path, command: str) -> Lines:
    """Run `command` (`cdc …`) on this configuration; returns its result without any value or key of a row.

    Raises CommandFailedError with what it said.
    """
    words = shlex.split(command)[1:]
    asks_json = words[0] == "verify"
    line = [sys.executable, "-m", "cdc", "--config", str(config), *words, *(["--json"] if asks_json else [])]
    ended = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)  # noqa: S603
    errors = [each for each in ended.stderr.splitlines() if each.startswith("error: ")]
    if asks_json and ended.returncode in {0, DIFFERS} and ended.stdout:
        return _describe_verdicts(ended.stdout)
    if ended.returncode:
        raise CommandFailedError("; ".join(errors[:MOST_LINES]) or f"it ended with exit code {ended.returncode}")
    return [f"`{command}` has ended well"]


def _describe_verdicts(text: str) -> Sequence[str]:
    """One line a follower, and one for each table that differs: never its keys."""
    report: dict[str, Any] = msgspec.json.decode(text)
    lines = []
    for follower, tables in report.get("followers", {}).items():
        verdicts = {table: found.get("verdict", "not known") for table, found in tables.items()}
        other = {table: verdict for table, verdict in verdicts.items() if verdict != "equal"}
        lines.append(f"{follower}: {len(verdicts) - len(other)} of {len(verdicts)} equal")
        lines += [f"{follower}: {table} {verdict}" for table, verdict in other.items()]
    return lines[:MOST_LINES]
