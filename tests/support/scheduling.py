"""Which of several processes runs what: a file's tests run in one of them, those of a room of `TOGETHER` do, too."""

from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

TOGETHER: Final = ("tests/faults/parts/", "tests/servers/cluster/", "tests/servers/lab/")
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
