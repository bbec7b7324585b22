"""The one place where a Spark session is made."""

import atexit
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from py4j.protocol import Py4JError
from pyspark.core.context import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from cdc.core.errors import PreconditionError
from cdc.local.fetch.cache import cache_folder, open_folder
from cdc.local.running.class_archive import FOLDER, ClassArchive, class_path
from cdc.local.servers.java import BRIEF, LATE_COMPILER, Java, find_java
from cdc.run.spark.cds_dump import dump_classes
from cdc.run.spark.errors import check_spark

FIXED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Delta's default is 50 tasks for the log of a table, however small it is
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    # Spark's default is to wait for ever for a query's thread
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.ui.showConsoleProgress": "false",
}
"""What the toolkit relies on, whatever the rest is."""

_LOGGING = Path(__file__).with_name("spark-log4j2.properties").as_uri()
LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.python.daemon.module": "cdc.run.spark.worker_daemon",
}
"""Of a session on this machine alone, whose workers find our packages where we did."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a session of our own is started: `jars` are files; Spark's log goes to the file `log`, and what it needs only
    while it runs into the folder `scratch`, or where the system has such.

    A `brief` one leaves out the second of Java's compilers, which pays off only after minutes: on two cores it takes
    the work's own time (the race's last step: 29 s with it, 20 s without).
    """

    master: str
    driver_memory: str
    jars: Sequence[str]
    log: Path
    brief: bool = False
    scratch: Path | None = None


def build(name: str, launch: Launch, conf: Mapping[str, str]) -> SparkSession:
    """A session with Delta and the Kafka source on its class path; a local master listens on loopback only.

    Raises PreconditionError when its Java machine does not start.
    """
    java = find_java()
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    archive = _class_archive(java, launch.jars) if launch.master.startswith("local") else None
    options = [*_java_options(launch), *(archive.options_on_demand() if archive else ())]
    own = {"spark.driver.memory": launch.driver_memory, "spark.driver.extraJavaOptions": " ".join(options)}
    # on this machine alone, the one Java has the jars from the beginning: what is loaded from there can be archived
    jars = {"spark.driver.extraClassPath": ":".join(launch.jars)} if archive else {"spark.jars": ",".join(launch.jars)}
    # PySpark's default is whatever `python3` PATH has, perhaps another version without our packages
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(launch.master)
    # settings of the user win over ours, but not over what the toolkit relies on
    for key, value in {**(_local(launch) if archive else {}), **own, **jars, **conf, **FIXED}.items():
        builder = builder.config(key, value)
    _silence_py4j()
    before = psutil.Process().children()
    try:
        session = _start(builder, launch, before)
    except (PySparkRuntimeError, Py4JError) as error:
        raise PreconditionError(f"Spark does not start: {_first_line(error)}", f"see {launch.log}") from error
    if archive and not archive.is_there:
        atexit.register(_keep_archive, archive)
    return session


def _start(builder: SparkSession.Builder, launch: Launch, before: Sequence[psutil.Process]) -> SparkSession:
    """The session, made in a thread of its own: in the main one, PySpark puts a handler of SIGINT in the place of ours,
    which asks Java to cancel its jobs, in the middle of whatever it is asked then."""
    with _temporary_files_in(launch.scratch), ThreadPoolExecutor(1, "spark") as thread:
        starting = thread.submit(builder.getOrCreate)
        try:
            return starting.result()
        except KeyboardInterrupt:
            # PySpark starts Java with SIGINT ignored, and before it is up nobody holds anything to end it by
            for child in psutil.Process().children(recursive=True):
                if child not in before:
                    child.kill()
            raise


def _silence_py4j() -> None:
    """Keep py4j from printing tracebacks of what it raises anyway: some by its own loggers, others by the root."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if not root.handlers:
        # what Python has where nobody has chosen one
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.addFilter(lambda record: f"{os.sep}py4j{os.sep}" not in record.pathname)
        root.addHandler(handler)


def _local(launch: Launch) -> dict[str, str]:
    """What a session on this machine alone has beside what every session has."""
    return LOCAL if launch.scratch is None else {**LOCAL, "spark.local.dir": str(launch.scratch)}


@contextmanager
def _temporary_files_in(folder: Path | None) -> Iterator[None]:
    """Where PySpark waits for its Java's first word: whoever is killed meanwhile leaves the file there."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder) if folder else before
    try:
        yield
    finally:
        tempfile.tempdir = before


def _class_archive(java: Java, jars: Sequence[str]) -> ClassArchive:
    """The archive of a session of this machine alone."""
    files = class_path(Path(_find_spark_home()), jars)
    return ClassArchive.of(java.program, files, open_folder(cache_folder() / FOLDER))


def _keep_archive(archive: ClassArchive) -> None:
    """At the end of this process: the session's Java, which ends with it, writes what it has loaded."""
    gateway = SparkContext._gateway
    # another process may have been quicker; one that was killed has nothing more to say
    if gateway is None or archive.is_there or check_spark():
        return
    if SparkContext._active_spark_context is not None:
        # what it is still doing takes the core that this needs
        with suppress(Py4JError):
            SparkContext._active_spark_context.stop()
    dump_classes(gateway, archive.own)
    archive.keep()


def _java_options(launch: Launch) -> list[str]:
    return [
        f"-Dlog4j2.configurationFile={_LOGGING}",
        f"-Dcdc.spark.log={launch.log}",
        *([f"-Djava.io.tmpdir={launch.scratch}"] if launch.scratch else []),
        *(BRIEF if launch.brief else LATE_COMPILER),
    ]


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def build_submitted(name: str, conf: Mapping[str, str]) -> SparkSession:
    """The session of a driver under `spark-submit`, which has said the master, the memory and the class path."""
    builder = SparkSession.builder.appName(name)
    for key, value in {**conf, **FIXED}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
