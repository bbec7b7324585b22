"""Starts the Java of a session, whose settings no list of processes shows.

PySpark gives every setting to Java on its command line, which all users of a machine can read. Here they go by a file
that only its owner reads, and that is gone once Java has started.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Final
from uuid import uuid4

import psutil
import pyspark
from pyspark.core.context import SparkContext
from pyspark.java_gateway import launch_gateway

from cdc.run.spark.java_logs import note_log

HOME: Final = Path(pyspark.__file__).parent
"""The Spark that PySpark brings along: ours is made for this version."""
_OTHERS: Final = (
    "PYSPARK_",
    "SPARK_HOME",
    "SPARK_REMOTE",
    "SPARK_LOCAL_REMOTE",
    "SPARK_CONNECT_MODE",
    "SPARK_API_MODE",
)
_OTHERS_LOCALLY: Final = ("PYSPARK_", "SPARK_")
_STDERR: Final = 2
_OF_MODULES: Final = b"WARNING: Using incubator modules"
_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


@contextmanager
def settings_file(file: Path, conf: Mapping[str, str]) -> Iterator[Path]:
    """Write Spark's settings to a new file as long as the context lasts, with mode 0600."""
    with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as written:
        written.write(to_properties(conf))
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


def name_settings_file() -> str:
    """A name that no other process has in its arguments."""
    return f"spark-{uuid4().hex}.properties"


def to_properties(conf: Mapping[str, str]) -> str:
    """Write settings as Java reads them from a properties file."""
    return "".join(f"{_escape_key(name)}={_escape_value(value)}\n" for name, value in conf.items())


def _escape_key(name: str) -> str:
    return "".join(f"\\{letter}" if letter in " :=#!" else letter for letter in name.translate(_ESCAPED))


def _escape_value(value: str) -> str:
    text = value.translate(_ESCAPED)
    # a blank at the beginning is no part of a value, unless it is escaped
    return f"\\{text}" if text.startswith(" ") else text


def quote_options(options: Sequence[str]) -> str:
    """Join options of Java to one text, which Spark splits as a shell does (`CommandBuilderUtils`)."""
    return " ".join(map(_quote, options))


def _quote(option: str) -> str:
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if set(option) & set(" \t\n'\"\\") else option


def own_environment(environ: Mapping[str, str], python: str, *, local: bool) -> dict[str, str]:
    """An environment without what a shell exports for other Sparks; workers run `python`.

    For a cluster those variables stay that say where its configuration lies, and which address the driver has.
    """
    others = _OTHERS_LOCALLY if local else _OTHERS
    own = {name: value for name, value in environ.items() if not name.startswith(others)}
    return {**own, "PYSPARK_PYTHON": python, "SPARK_HOME": str(HOME)}


def adopt_environment(python: str, *, local: bool) -> None:
    """Make the environment of this process its `own_environment`: PySpark reads it again and again."""
    own = own_environment(os.environ, python, local=local)
    for name in os.environ.keys() - own.keys():
        del os.environ[name]
    os.environ.update(own)


@dataclass(frozen=True, slots=True)
class JavaStart:
    """The start of the Java of this process's sessions; `folder` has the file of settings meanwhile.

    Every process of the start has the name of that file in its arguments, from the shell script to Spark's own, and
    keeps it when its parent is gone.
    """

    conf: Mapping[str, str]
    folder: Path
    log: Path
    local: bool
    name: str = field(default_factory=name_settings_file)

    def run(self) -> None:
        """Start it, unless one runs. Raises PySparkRuntimeError when it does not start."""
        if SparkContext._gateway is not None:
            return
        _begun.append(self)
        with settings_file(self.folder / self.name, self.conf) as file:
            os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*settings_options(file, local=self.local), "pyspark-shell"])
            try:
                SparkContext._ensure_initialized(gateway=_launch())
            except BaseException:
                # one that is still being started would complain, on our stderr, that the file is gone
                self.end()
                raise
            finally:
                del os.environ["PYSPARK_SUBMIT_ARGS"]
        java: Any = SparkContext._gateway
        note_log(java.proc, self.log)

    def end(self) -> None:
        """Kill all processes of the start, until no more of them is found: each may just have forked another one.

        No `wait` of psutil: PySpark would find the exit code taken away, take it for 0, and wait for ever.
        """
        while found := [process for process in psutil.process_iter() if self._is_of(process)]:
            for process in found:
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def _is_of(self, process: psutil.Process) -> bool:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            return any(self.name in word for word in process.cmdline())
        return False


_begun: Final[list[JavaStart]] = []


def list_begun() -> list[JavaStart]:
    """List the starts of this process: one, unless the first has failed."""
    return list(_begun)


def _launch() -> Any:
    words, end = os.pipe()
    # before the start: one that fails says why
    Thread(target=pass_on, args=(words, _STDERR), name="Java's words", daemon=True).start()
    try:
        return launch_gateway(popen_kwargs={"stderr": end})  # type: ignore[no-untyped-call]
    finally:
        os.close(end)


def pass_on(words: int, to: int) -> None:
    """Pass on the lines that Java writes, but for that on a module which Spark asks it for."""
    with os.fdopen(words, "rb") as lines:
        for line in lines:
            # whatever becomes of the other end: Java would stand still before a pipe that nobody reads
            with suppress(OSError):
                if not line.startswith(_OF_MODULES):
                    os.write(to, line)


def settings_options(file: Path, *, local: bool) -> list[str]:
    """The options of `spark-submit` that name a file of settings; a cluster's own defaults stay below them."""
    return ["--properties-file", str(file), *([] if local else ["--load-spark-defaults"])]
