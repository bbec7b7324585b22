"""What is installed is one package: a program may have modules that are named as folders of this repository."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from cdc.run.toolkit_archive import build_archive

MODULES = ("connect", "lab", "sinks", "snapshots", "views")
"""What programs have, and what the toolkit has below `cdc`."""
PROGRAM = """
import cdc, views, connect
from importlib import import_module
for name in cdc.__all__:
    getattr(cdc, name)
for name in ("cdc.views.upkeep.keeper", "cdc.connect.capture.connector", "cdc.sinks.registry", "cdc.snapshots.copy"):
    import_module(name)
print(views.OWN)
print(connect.OWN)
"""


def test_a_program_has_views_and_connect_of_its_own(tmp_path: Path) -> None:
    installed, program = tmp_path / "site", tmp_path / "my program"
    with zipfile.ZipFile(build_archive(tmp_path)) as archive:
        archive.extractall(installed)
    assert [path.name for path in installed.iterdir()] == ["cdc"]
    program.mkdir()
    for name in MODULES:
        (program / f"{name}.py").write_text("OWN = __file__\n")
    (program / "main.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "main.py"]
    ran = subprocess.run(command, cwd=program, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [str(program / "views.py"), str(program / "connect.py")]


def test_the_archive_has_every_file_of_the_package(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_archive(tmp_path)) as archive:
        names = set(archive.namelist())
    wanted = (
        "cdc/__init__.py",
        "cdc/views/upkeep/keeper.py",
        "cdc/sinks/lake/follower.py",
        "cdc/connect/source/sql/beat.sql",
    )
    assert [name for name in wanted if name not in names] == []
