"""Starts the Java of a session, whose settings no list of processes shows.

PySpark gives every setting to Java on its command line, which all users of a machine can read. Here they go by a file
that only its owner reads, and that is gone once Java has started.
"""

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pyspark
from pyspark.core.context import SparkContext

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
_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


@contextmanager
def settings_file(folder: Path, conf: Mapping[str, str]) -> Iterator[Path]:
    """Write Spark's settings to a file in `folder` as long as the context lasts, with mode 0600."""
    handle, name = tempfile.mkstemp(dir=folder, prefix="spark-", suffix=".properties")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(to_properties(conf))
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


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


def start_java(conf: Mapping[str, str], folder: Path, log: Path, *, local: bool) -> None:
    """Start the Java of this process's sessions, unless it runs; `folder` has the file of settings meanwhile.

    Raises PySparkRuntimeError when it does not start.
    """
    if SparkContext._gateway is not None:
        return
    with settings_file(folder, conf) as file:
        os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*settings_options(file, local=local), "pyspark-shell"])
        try:
            SparkContext._ensure_initialized()
        except BaseException:
            _end_readers(file)
            raise
        finally:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
    java: Any = SparkContext._gateway
    note_log(java.proc, log)


def _end_readers(file: Path) -> None:
    """End a Java that was being started with this file: it would complain, on our stderr, that the file is gone."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if str(file) in child.cmdline():
                child.kill()


def settings_options(file: Path, *, local: bool) -> list[str]:
    """The options of `spark-submit` that name a file of settings; a cluster's own defaults stay below them."""
    return ["--properties-file", str(file), *([] if local else ["--load-spark-defaults"])]
