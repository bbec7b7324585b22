"""For programs: tables and views at one cut, the changes of a table, and reading one's own writes.

`cdc.open` opens a pipeline for many questions. `import cdc` also gives each question as a function (`cdc.read`,
`cdc.cut`, `cdc.changes`, `cdc.token`, `cdc.wait`), which opens the pipeline for that one. `config` is the pipeline's
file; its references to files and the environment are resolved here. Errors are those of `cdc.core.errors`.
"""

from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Self

from psycopg import Connection
from pyspark.sql import DataFrame, SparkSession

from cdc.config.file import load
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.read.changes import open_changes
from cdc.run.read.cuts import At, CutFrames, LakeCut, TableVersion, find_cut
from cdc.run.read.histories import read_as_of
from cdc.run.read.tokens import take_token, wait_for_token

__all__ = [
    "CutFrames",
    "LakeCut",
    "PipelineReader",
    "TableVersion",
    "as_of",
    "changes",
    "cut",
    "open",
    "read",
    "token",
    "wait",
]
Config = str | PathLike[str]
CONFIG = "cdc.yaml"
WAIT_SECONDS = 30.0


class PipelineReader:
    """A pipeline that is opened once for many questions, and closed by `with`; used by one thread at a time."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def cut(self, *names: str, at: At = None) -> LakeCut:
        """The versions of tables and views at one cut, for any reader of Delta; without Spark.

        `names`: `schema.table` each; all of them without any. `at`: an LSN or a time, the newest cut at or before which
        is taken; the newest one without.
        """
        return find_cut(self._pipeline, names, at)

    def read(self, *names: str, at: At = None) -> CutFrames:
        """The same as DataFrames: `reader.read()["public.orders"]`. The session has to know Delta."""
        return CutFrames(self._pipeline.spark, self._pipeline.lake, self.cut(*names, at=at))

    def as_of(self, table: str, at: str | datetime) -> DataFrame:
        """The rows of `schema.table` as they were at an LSN or a time, by its history (`history:` in the file)."""
        return read_as_of(self._pipeline, TableName.parse(table), at)

    def changes(self, table: str, *, after: LakeCut | None = None) -> DataFrame:
        """A streaming DataFrame of the changes of `schema.table`: see `cdc.run.read.changes.open_changes`.

        The session has to know Spark's Kafka source. `after`: a cut, behind which the changes begin.
        """
        return open_changes(self._pipeline, TableName.parse(table), after)

    def wait(self, token: str, follower: str, *names: str, seconds: float = WAIT_SECONDS) -> str:
        """Wait until readers of a follower see everything up to a token; returns the LSN that they see.

        `names`: the tables and views that they read, `schema.table` each; all that the follower holds without any.
        """
        return wait_for_token(self._pipeline, follower, token, seconds, list(map(TableName.parse, names)))

    def close(self) -> None:
        self._pipeline.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(config: Config = CONFIG, spark: SparkSession | None = None) -> PipelineReader:
    """Open a pipeline: `with cdc.open("cdc.yaml") as pipeline: pipeline.cut()`. `spark`: for answers as DataFrames."""
    return PipelineReader(Pipeline(load(Path(config)), None if spark is None else lambda: spark))


def cut(*names: str, at: At = None, config: Config = CONFIG) -> LakeCut:
    """See `PipelineReader.cut`."""
    with open(config) as pipeline:
        return pipeline.cut(*names, at=at)


def read(spark: SparkSession, *names: str, at: At = None, config: Config = CONFIG) -> CutFrames:
    """See `PipelineReader.read`: `cdc.read(spark)["public.orders"]`."""
    with open(config, spark) as pipeline:
        return pipeline.read(*names, at=at)


def as_of(spark: SparkSession, table: str, at: str | datetime, *, config: Config = CONFIG) -> DataFrame:
    """See `PipelineReader.as_of`."""
    with open(config, spark) as pipeline:
        return pipeline.as_of(table, at)


def changes(spark: SparkSession, table: str, *, after: LakeCut | None = None, config: Config = CONFIG) -> DataFrame:
    """See `PipelineReader.changes`."""
    with open(config, spark) as pipeline:
        return pipeline.changes(table, after=after)


def token(connection: Connection) -> str:
    """The token of everything that is committed in the source now. Call it after the commit."""
    return take_token(connection)


def wait(token: str, follower: str, *names: str, seconds: float = WAIT_SECONDS, config: Config = CONFIG) -> str:
    """See `PipelineReader.wait`."""
    with open(config) as pipeline:
        return pipeline.wait(token, follower, *names, seconds=seconds)
