"""Which of several processes runs what, and when: tests of a file, or of a room of `TOGETHER`, run in one of them."""

from collections.abc import Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

TOGETHER: Final = ("tests/faults/parts/", "tests/servers/cluster/", "tests/servers/lab/", "tests/servers/logins/")
"""Rooms whose tests must not run at the same time: those with parts or a cluster of their own, and labs, each of which
has to leave no topic of a lab behind."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As `--dist=loadfile` has it, but that a room of `TOGETHER` is dealt out as one file is."""
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = find_unit
    return scheduler


def find_unit(nodeid: str) -> str:
    """What a test is dealt out with: its room or its file."""
    path = nodeid.partition("::")[0]
    return next((room for room in TOGETHER if path.startswith(room)), path)


def order_files(patience: Mapping[Path, float]) -> list[Path]:
    """Files in the order in which they are dealt out, by how many seconds their tests may take.

    Those that may take longest come first: of two processes, neither waits for the other at the end. Those without
    servers (0 seconds) take processor time only: half of them run between the others, which wait for servers. The other
    half is what the processes even out with at the end.
    """
    waiting = sorted(filter(patience.__getitem__, patience), key=patience.__getitem__, reverse=True)
    busy = [file for file in patience if not patience[file]]
    if not waiting:
        return busy
    early = len(busy) // 2
    borders = [early * number // len(waiting) for number in range(len(waiting) + 1)]
    between = (busy[begin:end] for begin, end in pairwise(borders))
    return [*chain.from_iterable((file, *others) for file, others in zip(waiting, between, strict=True)), *busy[early:]]
