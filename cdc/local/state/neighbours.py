"""A register of the homes of this machine: none takes a port of another, even while that one's services are stopped.

Without it, a home whose Kafka is stopped for a moment finds another home's Kafka on its port, and cannot start again.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock

from cdc.local.state import ports
from cdc.local.state.files import write
from cdc.local.state_dir import Home

CHOOSING_SECONDS: Final = 10.0
"""Longer than it takes to choose."""


def choose_ports(register: Path, home: Home) -> Mapping[str, int]:
    """The ports of `home` by name, chosen now if it has none, and noted in the folder `register`.

    Ports of other homes there are avoided. Raises as `ports.choose` does.
    """
    # a port that another home chooses at the same moment is free until its services have started
    with _one_at_a_time(register):
        chosen = ports.choose(home, ports_of_others(register, home))
        note(register, home)
    return chosen


@contextmanager
def _one_at_a_time(register: Path) -> Iterator[None]:
    with ExitStack() as held:
        # without a lock (a register of another user, or one held for too long) two homes may choose the same port
        with suppress(OSError):
            held.enter_context(FileLock(register / "lock", timeout=CHOOSING_SECONDS))
        yield


def ports_of_others(register: Path, home: Home) -> frozenset[int]:
    """The ports of the other homes in the folder `register`; removes notes of homes that are gone."""
    taken = set[int]()
    for note in register.glob("*.home"):
        # a home of another user, or damaged: its own `up` reports that, no other's does
        with suppress(Exception):
            other = Home(Path(note.read_text(encoding="utf-8")))
            found = ports.read_ports(other)
            if found is None:
                note.unlink()
            elif other != home:
                taken.update(found.values())
    return frozenset(taken)


def note(register: Path, home: Home) -> None:
    """Note this home, whose ports are chosen; a register that this user may not write stays as it is."""
    name = hashlib.sha256(os.fsencode(home.path)).hexdigest()[:16]
    # a path that is no UTF-8 is not noted either
    with suppress(OSError, UnicodeEncodeError):
        write(register / f"{name}.home", str(home.path), 0o644)
