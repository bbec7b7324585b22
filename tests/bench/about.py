"""Where, with what and when a goal was run."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from tests.bench.world.jobs import ROOT

DISTRIBUTIONS = (
    "pyspark",
    "delta-spark",
    "deltalake",
    "pyarrow",
    "duckdb",
    "psycopg",
    "confluent-kafka",
    "kafka-python",
    "opensearch-py",
)


def about() -> dict[str, Any]:
    """Machine, versions, commit, time, and how busy the machine was."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short=12", "HEAD") + ("+" if _git("status", "--porcelain") else ""),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}",
            "load_before": [round(load, 2) for load in os.getloadavg()],
        },
        "versions": {"python": platform.python_version(), **{name: _installed(name) for name in DISTRIBUTIONS}},
    }


def _processor() -> str:
    """As Linux names it; elsewhere the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _installed(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else ""
