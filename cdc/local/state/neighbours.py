"""The homes of this machine: a port that one of them comes back to is no other's, also while its parts are stopped."""

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
    """The ports of `home` by name, chosen now if it has none: those of no other home in the folder `register`, where it
    is noted. Raises as `ports.choose` does."""
    # what another chooses at the same moment is free as long as its parts have not started
    with _one_at_a_time(register):
        chosen = ports.choose(home, ports_of_others(register, home))
        note(register, home)
    return chosen


@contextmanager
def _one_at_a_time(register: Path) -> Iterator[None]:
    with ExitStack() as held:
        # a register that this user may not write has no lock: then by luck, as after waiting for too long
        with suppress(OSError):
            held.enter_context(FileLock(register / "lock", timeout=CHOOSING_SECONDS))
        yield


def ports_of_others(register: Path, home: Home) -> frozenset[int]:
    """The ports of the other homes that are noted in the folder `register`; notes of homes that are gone go, too."""
    taken = set[int]()
    for note in register.glob("*.home"):
        # another user's, or damaged in whatever way: whoever comes up there hears of it, and nobody else
        with suppress(Exception):
            other = Home(Path(note.read_text(encoding="utf-8")))
            found = ports.read_ports(other)
            if found is None:
                note.unlink()
            elif other != home:
                taken.update(found.values())
    return frozenset(taken)


def note(register: Path, home: Home) -> None:
    """Let others find this home, whose ports are chosen; a register that this user may not write stays as it is."""
    name = hashlib.sha256(os.fsencode(home.path)).hexdigest()[:16]
    # a path that is no UTF-8 is not noted either
    with suppress(OSError, UnicodeEncodeError):
        write(register / f"{name}.home", str(home.path), 0o644)
