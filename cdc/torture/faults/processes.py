"""Processes that are killed, or do not get the processor."""

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import psutil

from cdc.local import services
from cdc.local.endpoints import Service
from cdc.local.running import processes
from cdc.local.state_dir import Home
from cdc.torture.commands import signal_all
from cdc.torture.faults.ground import Ground
from cdc.torture.schedule import PlannedFault

FOLLOW, JAVA = "follow", "java"
GOING_SECONDS = 30.0


@contextmanager
def kill(ground: Ground, fault: PlannedFault) -> Iterator[None]:
    """SIGKILL, as the machine's owner or the kernel sends it; at the end it is started again."""
    kill_all(_family(ground, fault.target))
    try:
        yield
    finally:
        if fault.target not in {FOLLOW, JAVA}:
            services.up(ground.site.home, {Service(fault.target)})


def stop(ground: Ground, fault: PlannedFault) -> AbstractContextManager[None]:
    return stopped(_family(ground, fault.target))


def kill_all(family: list[psutil.Process]) -> None:
    """SIGKILL to processes; returns when they are gone."""
    signal_all(family, signal.SIGKILL)
    processes.wait_for_exit(GOING_SECONDS, family)


@contextmanager
def stopped(family: list[psutil.Process]) -> Iterator[None]:
    """SIGSTOP, as on a machine that swaps or is moved; at the end they go on."""
    signal_all(family, signal.SIGSTOP)
    try:
        yield
    finally:
        signal_all(family, signal.SIGCONT)


def _family(ground: Ground, target: str) -> list[psutil.Process]:
    """The processes of a part, the youngest first."""
    if target in {FOLLOW, JAVA}:
        family = ground.follow.family
        return family if target == FOLLOW else [each for each in family if _is_java(each)]
    return find_family(ground.site.home, target)


def find_family(home: Home, part: str) -> list[psutil.Process]:
    """The processes of a part of a home, the youngest first; none if it does not run."""
    process = processes.find(home, part)
    if process is None:
        return []
    with suppress(psutil.NoSuchProcess):
        return [*reversed(process.children(recursive=True)), process]
    return []


def _is_java(process: psutil.Process) -> bool:
    try:
        return bool(process.name() == JAVA)
    except psutil.NoSuchProcess:
        return False
