"""Builds Spark sessions; no other module does."""

import atexit
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.core.context import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.text.error_text import pick_first_line
from cdc.local.fetch.cache import cache_folder, open_folder
from cdc.local.running.class_archive import FOLDER, ClassArchive
from cdc.local.servers.java import BRIEF, LATE_COMPILER, Java, find_java
from cdc.run.spark.cds_dump import dump_classes
from cdc.run.spark.errors import check_spark
from cdc.run.spark.java_names import remember_classes
from cdc.run.spark.java_process import HOME, JavaStart, adopt_environment, quote_options

FIXED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # an error in a view's statement is an error, not a null; DuckDB does the same
    "spark.sql.ansi.enabled": "true",
    # Delta's default is 50 tasks to read the log of any table, even a small one
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    # Spark's default is to wait for ever for the thread of a query that is to stop
    "spark.sql.streaming.stopTimeout": "60s",
    # Spark keeps 100 generated classes by default. Jobs of four tables pushed each other's out: compiling them again
    # was 21 % of a batch's samples, 3 % with this size.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings that the toolkit relies on; the user's cannot override them."""

_SEPARATORS = {":", ","}
LISTS = {
    "spark.driver.extraJavaOptions": " ",
    "spark.driver.extraClassPath": ":",
    "spark.jars": ",",
    "spark.submit.pyFiles": ",",
}
"""Settings of which neither ours nor the user's may be left out, and what separates their parts."""
_LOGGING = Path(__file__).with_name("spark-log4j2.properties").as_uri()
LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # a Hadoop configuration on this machine may name another file system for paths without a scheme
    "spark.hadoop.fs.defaultFS": "file:///",
    # forks workers from a process that has imported our modules: before, each worker of a large run imported pandas for
    # 1.2 s
    "spark.python.daemon.module": "cdc.run.spark.worker_daemon",
}
"""Settings of a session on this machine alone, whose workers import our packages from the same place."""


@dataclass(frozen=True, slots=True)
class Workers:
    """A cluster's workers. `python`: its path on each of them. `toolkit`: the zip of our code, which they get."""

    python: str
    toolkit: Path


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How to start a session. `jars`: files. `log`: the file of Spark's log. `scratch`: a folder for temporary files.

    `workers` are there for a cluster only. `brief` leaves out the second of Java's compilers, which pays off only after
    minutes: on two cores it takes time from the work itself (the last step of `cdc demo race`: 29 s with it, 20 s
    without).
    """

    master: str
    driver_memory: str
    jars: Sequence[str]
    log: Path
    brief: bool = False
    scratch: Path | None = None
    workers: Workers | None = None

    @property
    def archive(self) -> ClassArchive | None:
        """The archive of the classes that the session's Java loads; None where its jars cannot be on its class path."""
        return _class_archive(find_java(), self.jars) if self.class_path else None

    @property
    def class_path(self) -> str | None:
        """The jars as a class path of this machine, where the driver runs; None if one has a mark in it that separates
        them."""
        separated = [jar for jar in self.jars if _SEPARATORS & set(jar)]
        return None if separated else ":".join(self.jars)


def build(name: str, options: SessionOptions, conf: Mapping[str, str]) -> SparkSession:
    """Build a session with Delta and the Kafka source on its class path; a local master listens on loopback only.

    Raises PreconditionError when its Java does not start.
    """
    # first: an error of Spark's scripts would say less of a Java that is missing
    find_java()
    archive = options.archive
    settings = {"spark.app.name": name, **assemble_conf(options, conf, archive)}
    # before the first word to PySpark, which asks for SPARK_REMOTE at once
    adopt_environment(options.workers.python if options.workers else sys.executable, local=options.workers is None)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    _silence_py4j()
    folder = options.scratch or Path(tempfile.gettempdir())
    java = JavaStart(settings, folder, options.log, local=options.workers is None)
    try:
        session = _start(java, builder, options)
    except (PySparkRuntimeError, Py4JError) as error:
        raise PreconditionError(f"Spark does not start: {pick_first_line(error)}", f"see {options.log}") from error
    # now, not with the first stream: py4j waits for Java by `select`, which takes no descriptor above 1,023. Of a
    # process that had so many files by then, the stream hung without a word
    ensure_callback_server_started(session.sparkContext._gateway)  # type: ignore[no-untyped-call]
    remember_classes()
    if archive and not archive.is_there:
        # session and first micro-batch take 17 s of processor time without an archive, 6.5 s with one and a late
        # compiler
        atexit.register(_keep_archive, archive)
    return session


def assemble_conf(options: SessionOptions, conf: Mapping[str, str], archive: ClassArchive | None) -> dict[str, str]:
    """All settings of a session: the user's `conf` override ours, except FIXED, and are added to those in LISTS."""
    options.log.parent.mkdir(parents=True, exist_ok=True)
    where = _cluster(options, options.workers) if options.workers else _this_machine(options)
    own = {
        "spark.master": options.master,
        # else a view that is computed for minutes takes every core before the jobs behind it
        "spark.scheduler.mode": "FAIR",
        "spark.driver.memory": options.driver_memory,
        "spark.driver.extraJavaOptions": quote_options(
            [*_java_options(options), *(archive.options_on_demand() if archive else ())]
        ),
        **where,
    }
    both = {key: mark.join((own[key], conf[key])) for key, mark in LISTS.items() if key in own and key in conf}
    return {**own, **conf, **both, **FIXED}


def _this_machine(options: SessionOptions) -> dict[str, str]:
    for path in (*options.jars, *([options.scratch] if options.scratch else [])):
        if found := sorted(_SEPARATORS & set(str(path))):
            marks = " and ".join(found)
            raise ConfigurationError(
                f"{path} has {marks} in it, which separates paths for Spark",
                "set pipeline.state or CDC_CACHE to another folder",
            )
    scratch = {"spark.local.dir": str(options.scratch)} if options.scratch else {}
    return {**LOCAL, **_on_class_path(options), **scratch}


def _on_class_path(options: SessionOptions) -> dict[str, str]:
    # from the start: only such classes can be archived
    return {"spark.driver.extraClassPath": options.class_path} if options.class_path else {}


def _cluster(options: SessionOptions, workers: Workers) -> dict[str, str]:
    return {
        **_on_class_path(options),
        # as URLs: a path may have what means something else in a list of them
        "spark.jars": ",".join(Path(jar).as_uri() for jar in options.jars),
        "spark.submit.pyFiles": workers.toolkit.as_uri(),
        "spark.pyspark.python": workers.python,
        # else a driver under spark-submit would be run by the workers' Python
        "spark.pyspark.driver.python": sys.executable,
    }


def _start(java: JavaStart, builder: SparkSession.Builder, options: SessionOptions) -> SparkSession:
    """Start the session in a thread of its own.

    In the main thread PySpark would replace our handler of SIGINT by one that asks Java to cancel its jobs, even in
    the middle of another call to Java.
    """
    with _temporary_files_in(options.scratch), ThreadPoolExecutor(1, "spark") as thread:
        java_runs = thread.submit(java.run)
        try:
            java_runs.result()
            return thread.submit(builder.getOrCreate).result()
        except KeyboardInterrupt:
            # PySpark starts Java with SIGINT ignored, and until it answers nobody has a handle to end it;
            # the thread may not even have forked
            while not wait([java_runs], timeout=0.1).done:
                java.end()
            java.end()
            raise


def _silence_py4j() -> None:
    """Keep py4j from printing tracebacks of errors that it raises anyway, by its own loggers and by the root logger."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if not root.handlers:
        # like Python's handler of last resort, but with a filter
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.addFilter(lambda record: f"{os.sep}py4j{os.sep}" not in record.pathname)
        root.addHandler(handler)


@contextmanager
def _temporary_files_in(folder: Path | None) -> Iterator[None]:
    """Set the folder where PySpark waits for Java's first answer: a process killed meanwhile leaves a file there."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder) if folder else before
    try:
        yield
    finally:
        tempfile.tempdir = before


def _class_archive(java: Java, jars: Sequence[str]) -> ClassArchive:
    files = [*sorted(map(str, (HOME / "jars").glob("*.jar"))), *jars]
    return ClassArchive.of(java.program, files, open_folder(cache_folder() / FOLDER))


def _keep_archive(archive: ClassArchive) -> None:
    """At the end of this process: dump the classes that the session's Java has loaded."""
    gateway = SparkContext._gateway
    # another process may have written it already; a Java that was killed cannot
    if gateway is None or archive.is_there or check_spark():
        return
    if SparkContext._active_spark_context is not None:
        # jobs that still run would take the core that the dump needs
        with suppress(Py4JError):
            SparkContext._active_spark_context.stop()
    dump_classes(gateway, archive.own)
    archive.keep()


def _java_options(options: SessionOptions) -> list[str]:
    return [
        f"-Dlog4j2.configurationFile={_LOGGING}",
        f"-Dcdc.spark.log={options.log}",
        f"-Dcdc.spark.logs={str(options.log).replace('%', '%%')}",
        *([f"-Djava.io.tmpdir={options.scratch}"] if options.scratch else []),
        *(BRIEF if options.brief else LATE_COMPILER),
    ]


def build_submitted(name: str) -> SparkSession:
    """The session of a driver under `spark-submit`, which was given all settings."""
    return SparkSession.builder.appName(name).getOrCreate()
