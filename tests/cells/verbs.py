"""A cell of a verb, from its start to its end: with the fault, and again until it is done."""

import signal
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final

import pytest

from cdc.__main__ import main
from cdc.core import fail_points
from cdc.core.errors import CdcError, to_system_error
from cdc.torture.remedies import ASKING, find_command
from tests.cells.cell import POINT_KINDS, Cell
from tests.cells.faults import FAULTS, HOLD_SECONDS
from tests.cells.followers import UNTRANSLATED, Process, arming
from tests.cells.world import World
from tests.support.cdc_inprocess import bootstrap, lend_session, recapture_all
from tests.support.waiting import until

MOST_REMEDIES: Final = 4
VERB_SECONDS: Final = 180.0
SPREAD: Final = 6
"""A verb is disturbed after so many seconds at most, each time after other ones."""


def disturb_verb(world: World, cell: Cell) -> tuple[str, str]:
    """Begin the verb, and do what the cell says; returns what was told, and why it was not reached, if it was not."""
    if cell.kind == "kill":
        return "", _kill(world, cell)
    if cell.kind in POINT_KINDS:
        return _arm(world, cell)
    told = list[str]()
    thread = threading.Thread(target=_try, args=(world, cell, told))
    thread.start()
    time.sleep(1 + world.next_number() % SPREAD)
    with FAULTS[cell.kind](world, cell) if thread.is_alive() else nullcontext():
        time.sleep(HOLD_SECONDS)
    thread.join()
    return "".join(told), ""


def finish_verb(world: World, cell: Cell) -> str:
    """The same again until it is done, as it is told; returns what was told on the way."""
    told = list[str]()
    for _ in range(MOST_REMEDIES):
        try:
            _do(world, cell)
        except CdcError as error:
            told.append(str(error))
            if "by itself" in str(error):
                # what follows then has to do it
                return " | ".join(told)
            if (words := find_command(str(error))) and words[0] != cell.phase:
                run_verb(world, words)
        else:
            return " | ".join(told)
    raise AssertionError(f"after {MOST_REMEDIES} tries: {told}")


def run_verb(world: World, words: Sequence[str]) -> None:
    """Run a verb that a remedy names, as it is told. Raises AssertionError when it fails: the remedy does not work."""
    asking = ["--yes"] if words[0] in ASKING and "--yes" not in words else []
    with pytest.MonkeyPatch.context() as patched:
        lend_session(world.spark, patched)
        code = main(["--config", str(world.pipeline.config), *words, *asking])
    assert code == 0, f"cdc {' '.join(words)} ended with {code}"


def _kill(world: World, cell: Cell) -> str:
    process = Process(world, (cell.phase, *_words(cell)), arming(cell))
    try:
        until(lambda: not process.is_running, "it ends", VERB_SECONDS, every=0.1)
    finally:
        is_killed = process.process.poll() == -signal.SIGKILL
        process.kill()
    return "" if is_killed else f"it ended with {process.process.returncode}: {process.said[-300:]}"


def _words(cell: Cell) -> Sequence[str]:
    return ("--yes",) if cell.phase == "recapture" else ()


def _arm(world: World, cell: Cell) -> tuple[str, str]:
    fail_points.arm(arming(cell))
    told = list[str]()
    _try(world, cell, told)
    is_missed = cell.component in fail_points.list_armed()
    fail_points.arm("")
    return "".join(told), f"{cell.component} was not reached: {told}" if is_missed else ""


def _try(world: World, cell: Cell, told: list[str]) -> None:
    try:
        _do(world, cell)
    except CdcError as error:
        told.append(str(error))
    except OSError as error:
        told.append(str(to_system_error(error)))
    except Exception as error:  # noqa: BLE001 - what a user would see as a bug
        told.append(f"{UNTRANSLATED} {error!r}")


def _do(world: World, cell: Cell) -> None:
    verb = recapture_all if cell.phase == "recapture" else bootstrap
    verb(world.pipeline, world.spark)
