"""One cell of each kind, on parts of their own: `python -m tests.cells` runs all of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SEED = os.environ.get("CDC_TEST_SEED", "1")


@pytest.mark.further
@pytest.mark.timeout(5400)
def test_a_cell_of_each_kind_ends_equal_or_told() -> None:
    """A repeat of what tests of faults have each for itself, on one pipeline of every feature."""
    command = [sys.executable, "-m", "tests.cells", "--sample", "1", "--seed", SEED]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-6000:]
