"""The scratch folder of a process."""

import subprocess
import sys
from pathlib import Path

from cdc.run.scratch import FOLDER, open_scratch
from tests.support.cdc_subprocess import ROOT

OTHER = """
import sys, time
from pathlib import Path
from cdc.run.scratch import open_scratch
folder = open_scratch(Path(sys.argv[1]))
(folder / "left").write_text("x")
print(folder, flush=True)
sys.stdin.read()
"""


def other(state: Path) -> "tuple[subprocess.Popen[str], Path]":
    """Another process that has a folder there, until its input ends."""
    command = [sys.executable, "-c", OTHER, str(state)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def test_only_scratch_of_killed_processes_is_deleted(tmp_path: Path) -> None:
    killed, left = other(tmp_path)
    living, kept = other(tmp_path)
    with killed, living:
        killed.kill()
        killed.wait()
        assert left.exists()
        mine = open_scratch(tmp_path)
        assert open_scratch(tmp_path) == mine
        assert {path for path in (tmp_path / FOLDER).iterdir() if path.is_dir()} == {kept, mine}
        assert (kept / "left").exists()
    # who ends by itself takes it along
    assert not kept.exists()
