"""`cdc submit`: runs the follow job through `spark-submit`, on any master, in client mode.

The driver runs on this machine and reads the configuration. The workers must reach the log, the lake and the index, and
need Python 3.11 with the packages that the README names; the toolkit's own code is shipped. Passwords and keys are in
no command line: the driver reads them from the configuration, and sends them with the tasks that need them.
"""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyspark

from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError
from cdc.local.fetch.jars import spark_jars, spark_packages
from cdc.run.pipeline import SUBMITTED, fetch_lake_jars, spark_conf
from cdc.run.spark.session import FIXED

PACKAGE = "cdc"
ENTRY = Path("..", "__main__.py")


@dataclass(frozen=True, slots=True)
class Submission:
    """A job for `spark-submit`. `arguments`: of `cdc`. `resolve_packages`: the cluster fetches the jars itself."""

    master: str
    arguments: Sequence[str]
    resolve_packages: bool = False

    def command(self, settings: PipelineSettings, packages: Path) -> list[str]:
        """The command line. `packages`: the zip of the toolkit's own code."""
        jars = _jar_options(fetch_lake_jars(settings), resolve_packages=self.resolve_packages)
        conf = {
            # the workers' Python must be the driver's version
            "spark.pyspark.python": sys.executable,
            **spark_conf(settings),
            # last, as in every session: nothing may override these
            **FIXED,
        }
        pairs = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        memory = ["--driver-memory", settings.spark.driver_memory]
        where = ["--master", self.master, "--deploy-mode", "client", *memory]
        script = (Path(__file__).parent / ENTRY).resolve()
        program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        return [str(program), *where, *jars, "--py-files", str(packages), *pairs, str(script), *self.arguments]


def _jar_options(of_lake: Sequence[Path], *, resolve_packages: bool) -> list[str]:
    """The options for jars. Those of a lake on an object store are always shipped: resolving them takes 686 MB."""
    if not resolve_packages:
        return ["--jars", _join_paths([*spark_jars(), *of_lake])]
    packages = spark_packages()
    excluded = ["--exclude-packages", ",".join(packages.excluded)]
    return ["--packages", ",".join(packages.resolved), *excluded, "--jars", _join_paths([*packages.shipped, *of_lake])]


def _join_paths(jars: Sequence[Path]) -> str:
    return ",".join(map(str, jars))


def submit(settings: PipelineSettings, submission: Submission) -> int:
    """Run the job, wait for it, and return its exit code. Raises CdcError when it cannot be started."""
    packages = build_archive(Path(settings.pipeline.state) / "submit")
    # by the environment: the driver is the same command, `cdc follow`
    environment = {**os.environ, SUBMITTED: "1", "PYSPARK_PYTHON": sys.executable}
    try:
        return subprocess.run(submission.command(settings, packages), env=environment, check=False).returncode  # noqa: S603
    except OSError as error:
        raise CdcError(f"spark-submit cannot be started: {error.strerror}", "reinstall pyspark") from error


def build_archive(folder: Path) -> Path:
    """Write the toolkit's package into a zip, for the workers; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "cdc-toolkit.zip"
    top = _find_folder(PACKAGE)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in _list_files(top):
            packed.write(file, file.relative_to(top.parent))
    return path


def _list_files(top: Path) -> Iterator[Path]:
    # in a checkout, three folders of the package are links to folders beside it: rglob follows none
    for folder, _, names in os.walk(top, followlinks=True):
        # compiled files belong to this machine's Python
        yield from (Path(folder) / name for name in sorted(names) if not name.endswith(".pyc"))


def _find_folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CdcError(f"package {package} is not installed", "install the toolkit")
    return Path(next(iter(spec.submodule_search_locations)))
