"""Connections that are cut, slow, or silent."""

from contextlib import AbstractContextManager

from cdc.torture.faults.ground import Ground
from cdc.torture.schedule import PlannedFault

SLOWEST_SECONDS = 0.4


def cut(ground: Ground, fault: PlannedFault) -> AbstractContextManager[None]:
    return ground.site.links[fault.target].cut()


def silence(ground: Ground, fault: PlannedFault) -> AbstractContextManager[None]:
    return ground.site.links[fault.target].silenced()


def slow(ground: Ground, fault: PlannedFault) -> AbstractContextManager[None]:
    return ground.site.links[fault.target].slowed(SLOWEST_SECONDS * (1 + fault.number % 4) / 4)
