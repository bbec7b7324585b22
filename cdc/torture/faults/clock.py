"""The clock of `cdc follow` is set, by a library that is compiled for the run and preloaded (`clock.c`)."""

import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cdc.torture.faults.ground import Ground, LeftOutError
from cdc.torture.schedule import PlannedFault

JUMPS: Final = (-90 * 86400, -3600, -20, 20, 3600, 30 * 86400)
"""Seconds."""
_CODE: Final = Path(__file__).with_name("clock.c")
_LIBRARY, _SHIFT = "clock.so", "clock"


def compile_clock(folder: Path) -> dict[str, str]:
    """What a process is started with whose clock can be set later; nothing without Linux and a compiler of C."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return {}
    library = folder / _LIBRARY
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_CODE), "-ldl"]
    if subprocess.run(words, check=False, capture_output=True).returncode:  # noqa: S603
        return {}
    _shift(folder, 0)
    return {"LD_PRELOAD": str(library), "CDC_TORTURE_CLOCK": str(folder / _SHIFT)}


@contextmanager
def set_clock(ground: Ground, fault: PlannedFault) -> Iterator[None]:
    folder = ground.site.folder
    if not (folder / _SHIFT).exists():
        raise LeftOutError("a clock can only be set on Linux, with a compiler of C", "install one, as Debian's gcc")
    _shift(folder, JUMPS[fault.number % len(JUMPS)])
    try:
        yield
    finally:
        _shift(folder, 0)


def _shift(folder: Path, seconds: int) -> None:
    """Set the clock, in place: the process has the file mapped."""
    file = folder / _SHIFT
    file.touch()
    with file.open("r+b") as opened:
        opened.write(struct.pack("=q", seconds))
