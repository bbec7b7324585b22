"""This machine."""

from collections.abc import Iterator
from typing import Final

from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.parts import AskedParts

_FILES: Final = 4096
_LEAST_BYTES: Final = 1 << 30
_STATE_BYTES: Final = 256 << 20


@check("machine.answers", Severity.ERROR, "the followers run here")
def find_machine(parts: AskedParts) -> Iterator[Fault]:
    """Folders, memory and limits of this machine can be asked."""
    _ = parts.machine
    yield from ()


@check("machine.open_files", Severity.WARNING, "a copy of many tables has hundreds of files and connections open")
def find_few_files(parts: AskedParts) -> Iterator[Fault]:
    """A process may open 4,096 files."""
    if 0 <= (limit := parts.machine.open_files) < _FILES:
        yield Fault("ulimit", f"a process may open {limit} files", f"ulimit -n {_FILES}, or LimitNOFILE of the service")


@check("machine.memory", Severity.WARNING, "the machine swaps, or ends the process")
def find_little_memory(parts: AskedParts) -> Iterator[Fault]:
    """There is 1 GiB of free memory."""
    if (free := parts.machine.memory_bytes) < _LEAST_BYTES:
        yield Fault("memory", f"{free >> 20:,} MiB of memory are free", "end what else runs here")


@check("machine.time_zones", Severity.WARNING, "moments with the names of time zones could not be read")
def find_no_zones(parts: AskedParts) -> Iterator[Fault]:
    """The data of time zones is there."""
    if not parts.machine.has_zones:
        yield Fault("tzdata", "the data of time zones is not installed", "install tzdata")


@check("machine.state", Severity.ERROR, "leases, indexes and the problems of streams are kept there")
def find_closed_state(parts: AskedParts) -> Iterator[Fault]:
    """This process may write into the folder of `pipeline.state`."""
    folder = parts.machine.state
    if not folder.is_writable:
        yield Fault(folder.path, f"{folder.path} cannot be written", "give the user of cdc the right to write there")


@check(
    "machine.state_space", Severity.WARNING, "an index that cannot be written costs time, and a log of Spark is cut off"
)
def find_little_state_space(parts: AskedParts) -> Iterator[Fault]:
    """The folder of `pipeline.state` has 256 MiB of room."""
    folder = parts.machine.state
    if folder.free_bytes < _STATE_BYTES:
        yield Fault(folder.path, f"{folder.path} has {folder.free_bytes >> 20:,} MiB of room", "make room there")
