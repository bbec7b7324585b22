"""The processes that a bench watches: trees by their roots, and which part of the work each process is."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psutil

from tests.bench.meter.account import Key, Observed

BENCH, DRIVER, SPARK, WORKERS = "bench", "driver", "spark", "workers"
"""The harness itself; a job's Python, its Java, and the Python workers of that."""

_HEIRS = {DRIVER: SPARK, SPARK: WORKERS}
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied)


@dataclass(frozen=True, slots=True)
class Seen:
    """A process of a watched tree; `role` may be what its place in the tree says."""

    process: psutil.Process
    key: Key
    parent: Key | None
    role: str

    def observed(self) -> Observed | None:
        """Its seconds now; None when it has ended meanwhile, and its pid is perhaps another one's."""
        try:
            times = self.process.cpu_times()
            if not self.process.is_running():
                return None
        except _GONE:
            return None
        own = times.user + times.system
        inherited = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
        # what the harness has waited for is counted where it was seen
        inherited = 0.0 if self.role == BENCH else inherited
        parent = None if self.parent and self.parent[0] == os.getpid() else self.parent
        return Observed(self.key, parent, self.role, _HEIRS.get(self.role, self.role), own, inherited)

    def proportional_bytes(self) -> int:
        """Its memory, what is shared divided among those who share it; resident where the system does not say."""
        try:
            return int(getattr(self.process.memory_full_info(), "pss", 0) or self.process.memory_info().rss)
        except _GONE:
            return 0


def watched(roots: Mapping[int, str]) -> Iterator[Seen]:
    """All processes below `roots` (pid and role; a job's root is its DRIVER), the roots included."""
    processes = {process.pid: process for process in psutil.process_iter(["ppid", "create_time"])}
    for process in processes.values():
        way = _way_up(process.pid, processes, roots)
        if way:
            role = roots[way[-1]]
            parent = process.info["ppid"]
            above = _key(processes[parent]) if parent in processes and len(way) > 1 else None
            yield Seen(process, _key(process), above, _role(process, role) if role == DRIVER else role)


def _way_up(pid: int, processes: Mapping[int, psutil.Process], roots: Mapping[int, str]) -> list[int]:
    """The pids from this process up to the nearest root; none when it is below no root."""
    way = [pid]
    while way[-1] not in roots:
        process = processes.get(way[-1])
        if process is None or process.info["ppid"] in (None, 0, *way):
            return []
        way.append(process.info["ppid"])
    return way


def _role(process: psutil.Process, job: str) -> str:
    """Which part of a Spark job a process is, by its command line."""
    try:
        command = process.cmdline()
    except _GONE:
        return job
    if command and "java" in os.path.basename(command[0]):  # noqa: PTH119 - macOS and Linux write it alike
        return SPARK
    return WORKERS if "pyspark.daemon" in command else job


def _key(process: psutil.Process) -> Key:
    return process.pid, process.info["create_time"]
