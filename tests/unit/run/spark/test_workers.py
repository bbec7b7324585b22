"""What a cluster's workers need is what the page tells to install, and what is shipped: nothing else is imported."""

import ast
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyspark

import cdc
from cdc.run.spark.workers import PACKAGES
from cdc.run.toolkit_archive import build_archive
from tests.support.parts.worker_python import documented_packages, make_worker_python

TASKS: Final = {"mapInArrow", "map_parts", "run_in_tasks", "mapPartitions", "RowsTask", "NumbersTask"}
"""Names that a module has which gives functions or objects of its own to tasks."""
PACKAGE: Final = Path(cdc.__file__).parent


def names_of(module: Path) -> set[str]:
    nodes = [*ast.walk(ast.parse(module.read_text()))]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return attributes | imported | {node.id for node in nodes if isinstance(node, ast.Name)}


def modules_of_tasks() -> Iterator[str]:
    for folder, _, names in os.walk(PACKAGE, followlinks=True):
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            if names_of(path) & TASKS:
                yield ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def test_the_page_names_what_workers_are_asked_for() -> None:
    assert sorted(documented_packages()) == sorted(package.partition("[")[0] for package in PACKAGES.values())


def test_tasks_import_from_the_zip_and_the_documented_packages_alone(tmp_path: Path) -> None:
    python = make_worker_python(tmp_path / "python")
    shipped = [str(build_archive(tmp_path)), *map(str, Path(pyspark.__file__).parent.glob("python/lib/*.zip"))]
    modules = ["cdc.sinks.lake.table.load", *modules_of_tasks()]
    assert len(modules) > 10
    lines = ["import importlib, sys", f"sys.path[:0] = {shipped!r}"]
    lines += [f"importlib.import_module({module!r})" for module in modules]
    lines += ["assert importlib.import_module('cdc').__file__.startswith(sys.path[0])"]
    ran = subprocess.run([python, "-I", "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
