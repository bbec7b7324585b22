"""The Python that runs Spark's tasks, where it is another one than ours, and on this machine."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from cdc.config.spark_settings import is_local
from cdc.core.errors import PreconditionError, UnreachableError
from cdc.run.pipeline import Pipeline
from cdc.run.spark.workers import PACKAGES

SECONDS: Final = 5.0
# found, not imported: that would take seconds
_ASK: Final = """
import importlib.util, json, sys
print(json.dumps([list(sys.version_info[:2]), [n for n in sys.argv[1:] if importlib.util.find_spec(n) is None]]))"""


@dataclass(frozen=True, slots=True)
class WorkerPython:
    """`version`: of the Python at `path`. `lacking`: the packages that our tasks import, and it does not have."""

    path: str
    version: tuple[int, ...]
    lacking: tuple[str, ...] = ()


def read_worker_python(pipeline: Pipeline) -> WorkerPython | None:
    """Ask the Python of the workers on this machine. None where it is ours, or on machines of a cluster.

    Raises PreconditionError when it does not run.
    """
    spark = pipeline.settings.spark
    if spark.python is None or not is_local(spark.master):
        return None
    path = shutil.which(spark.python)
    if path is None:
        raise PreconditionError(f"spark.python {spark.python} is not there", "name a Python that is on this machine")
    if path == sys.executable:
        return None
    try:
        asked = [path, "-c", _ASK, *PACKAGES]
        # a path of the user's own settings, which Spark runs, too
        told = subprocess.run(asked, capture_output=True, check=True, timeout=SECONDS, text=True)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise UnreachableError(f"{path} has not answered within {SECONDS:.0f} s", "is the machine busy?") from None
    except (OSError, subprocess.CalledProcessError) as error:
        raise PreconditionError(f"spark.python {path} does not run: {error}", "name another Python") from error
    version, lacking = json.loads(told.stdout)
    return WorkerPython(path, tuple(version), tuple(PACKAGES[name] for name in lacking))
