"""`cdc submit`: runs the follow job through `spark-submit`, on any master, in client mode.

The driver runs on this machine and reads the configuration. The workers must reach the log, the lake and the index, and
need a Python with the packages of `cdc/run/spark/workers.py`; the toolkit's own code and its jars are shipped.
Passwords and keys are in no command line: Spark's settings go by a file, and the driver sends keys with the tasks that
need them.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError
from cdc.local.state.files import write
from cdc.run.spark.java_process import (
    HOME,
    name_settings_file,
    own_environment,
    settings_file,
    settings_options,
    to_properties,
)
from cdc.run.spark.pipeline_session import SUBMITTED, session_options, spark_conf
from cdc.run.spark.session import SessionOptions, assemble_conf
from cdc.run.toolkit_archive import find_package

_ENTRY: Final = """import sys
# the installed toolkit, not the zip that is sent to workers
sys.path[:] = [{folder!r}, *(entry for entry in sys.path[1:] if not entry.endswith("cdc-toolkit.zip"))]
from cdc.__main__ import main
sys.exit(main())
"""


@dataclass(frozen=True, slots=True)
class Submission:
    """A job for `spark-submit`: the `arguments` of `cdc`, and its Spark."""

    arguments: Sequence[str]
    options: SessionOptions
    conf: Mapping[str, str]

    @classmethod
    def of(cls, settings: PipelineSettings, master: str, arguments: Sequence[str]) -> "Submission":
        """The job of these settings on a master. Raises ConfigurationError for a cluster whose Python is not named."""
        options = session_options(settings, master)
        return cls(
            arguments,
            options,
            assemble_conf(options, spark_conf(settings), options.archive),
        )

    def command(self, conf: Path, entry: Path) -> list[str]:
        """The command line, with the files of Spark's settings and of the driver's first lines."""
        where = ["--master", self.options.master, "--deploy-mode", "client"]
        own = settings_options(conf, local=self.options.workers is None)
        return [str(HOME / "bin" / "spark-submit"), *where, *own, str(entry), *self.arguments]

    def environment(self) -> dict[str, str]:
        """The environment of `spark-submit` and of the driver."""
        workers = self.options.workers
        own = own_environment(os.environ, workers.python if workers else sys.executable, local=workers is None)
        # by the environment: the driver is the same command, `cdc follow`
        return {**own, "PYSPARK_DRIVER_PYTHON": sys.executable, SUBMITTED: "1"}


def submit(state: Path, submission: Submission) -> int:
    """Run the job, wait for it, and return its exit code; its files lie below the pipeline's `state`.

    Raises CdcError when it cannot be started.
    """
    folder = _open_folder(state)
    with ExitStack() as held:
        conf = held.enter_context(settings_file(folder / name_settings_file(), submission.conf))
        command = submission.command(conf, _write_entry(folder))
        try:
            return subprocess.run(command, env=submission.environment(), check=False).returncode  # noqa: S603
        except OSError as error:
            raise CdcError(f"spark-submit cannot be started: {error.strerror}", "reinstall pyspark") from error


def write_command(state: Path, submission: Submission) -> list[str]:
    """The command line of the job, with its files below the pipeline's `state`, which stay."""
    folder = _open_folder(state)
    conf = folder / "spark.properties"
    write(conf, to_properties(submission.conf))
    return submission.command(conf, _write_entry(folder))


def _open_folder(state: Path) -> Path:
    folder = state / "submit"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _write_entry(folder: Path) -> Path:
    entry = folder / "follow.py"
    write(entry, _ENTRY.format(folder=str(find_package().parent)))
    return entry
