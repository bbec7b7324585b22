"""Builds the Spark session of a pipeline from its settings."""

import os
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from cdc.config.settings import PipelineSettings
from cdc.config.spark_settings import SparkSettings, is_local
from cdc.core.errors import ConfigurationError
from cdc.local.fetch.jars import fetch, spark_jars
from cdc.progress import SILENT, Progress
from cdc.run.scratch import open_scratch
from cdc.run.spark import session
from cdc.run.spark.token_urls import executors_conf
from cdc.run.spark.workers import check_workers
from cdc.run.toolkit_archive import build_archive
from cdc.sinks.lake.settings import S3Settings, StoreSettings
from cdc.sinks.lake.storage import spark_s3a as s3a

SUBMITTED: Final = "CDC_SUBMITTED"
"""An environment variable that `cdc submit` sets for the driver: its master and class path are given."""


def may_start_early(settings: PipelineSettings) -> bool:
    """May Spark start before its verb knows that it needs it? On a cluster, an application would come and go."""
    return SUBMITTED not in os.environ and is_local(settings.spark.master)


def build_spark_session(
    settings: PipelineSettings, name: str, *, brief: bool = False, progress: Progress = SILENT
) -> SparkSession:
    """Build the session of one verb; under `spark-submit`, in the application that was submitted.

    `brief`: see `SessionOptions`. `progress` shows the download of jars and the start of Spark.
    """
    title, access = f"cdc {name} {settings.pipeline.name}", settings.delta[1].access
    # a driver under spark-submit must not start a Java of its own
    if SUBMITTED in os.environ:
        built = session.build_submitted(title)
    else:
        options = session_options(settings, settings.spark.master, progress, brief=brief)
        built = session.build(title, options, spark_conf(settings))
    if not is_local(built.conf.get("spark.master", "") or ""):
        progress.step("spark", "asking the workers' Python")
        check_workers(built)
    if isinstance(access, S3Settings):
        # into the running session, not into its settings: those are shown in Spark's UI and logs
        s3a.give_keys(built, access)
    return built


def spark_conf(settings: PipelineSettings) -> dict[str, str]:
    """Spark's settings beside master and memory, for a lake in a folder or a store; without secrets."""
    spark, access = settings.spark, settings.delta[1].access
    lake = s3a.conf(access) if isinstance(access, S3Settings) else {}
    conf = {"spark.sql.shuffle.partitions": str(spark.shuffle_partitions), **lake, **spark.conf}
    return conf | executors_conf(conf, settings.log)


def fetch_lake_jars(access: StoreSettings | None, progress: Progress = SILENT) -> list[Path]:
    """Fetch the jars that Spark needs to reach a lake on S3, beside those of every pipeline; others need none."""
    return [*fetch(s3a.JARS, progress=progress)] if isinstance(access, S3Settings) else []


def session_options(
    settings: PipelineSettings, master: str, progress: Progress = SILENT, *, brief: bool = False
) -> session.SessionOptions:
    """How to start a session of these settings on a master; fetches its jars.

    Raises ConfigurationError for a cluster whose Python the settings do not name.
    """
    spark, state = settings.spark, Path(settings.pipeline.state).absolute()
    workers = None if is_local(master) else _find_workers(spark, master, state)
    jars = [str(jar) for jar in (*spark_jars(progress=progress), *fetch_lake_jars(settings.delta[1].access, progress))]
    progress.step("spark", f"starting, with {master}")
    log = state / "logs" / "spark.log"
    return session.SessionOptions(master, spark.driver_memory, jars, log, brief, open_scratch(state), workers)


def _find_workers(spark: SparkSettings, master: str, state: Path) -> session.Workers:
    python = spark.workers_python
    if python is None:
        raise ConfigurationError(
            f"spark.python is not set, and {master} is a cluster", "name in it the path of Python on the workers"
        )
    return session.Workers(python, build_archive(state / "submit"))
