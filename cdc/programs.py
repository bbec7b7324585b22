"""For programs: tables and views at one cut, the changes of a table, and reading one's own writes.

`import cdc` gives these functions (`cdc.read`, `cdc.cut`, `cdc.changes`, `cdc.token`, `cdc.wait`). `config` is the
pipeline's file; its references to files and the environment are resolved here. Errors are those of `cdc.core.errors`.
"""

from datetime import datetime
from os import PathLike
from pathlib import Path

from psycopg import Connection
from pyspark.sql import DataFrame, SparkSession

from cdc.config.file import load
from cdc.core.table import TableName
from cdc.run.read.changes import open_changes
from cdc.run.read.cuts import At, CutFrames, LakeCut, TableVersion, find_cut
from cdc.run.read.histories import read_as_of
from cdc.run.read.tokens import take_token, wait_for_token

__all__ = ["CutFrames", "LakeCut", "TableVersion", "as_of", "changes", "cut", "read", "token", "wait"]
Config = str | PathLike[str]
CONFIG = "cdc.yaml"
WAIT_SECONDS = 30.0


def cut(*names: str, at: At = None, config: Config = CONFIG) -> LakeCut:
    """The versions of tables and views at one cut, for any reader of Delta; without Spark.

    `names`: `schema.table` each; all of them without any. `at`: an LSN or a time, the newest cut at or before which is
    taken; the newest one without.
    """
    return find_cut(load(Path(config)), names, at)


def read(spark: SparkSession, *names: str, at: At = None, config: Config = CONFIG) -> CutFrames:
    """The same as DataFrames: `cdc.read(spark)["public.orders"]`. The session has to know Delta."""
    return CutFrames(spark, cut(*names, at=at, config=config))


def as_of(spark: SparkSession, table: str, at: str | datetime, *, config: Config = CONFIG) -> DataFrame:
    """The rows of `schema.table` as they were at an LSN or a time, by its history (`history:` in the file)."""
    return read_as_of(spark, load(Path(config)), TableName.parse(table), at)


def changes(spark: SparkSession, table: str, *, after: LakeCut | None = None, config: Config = CONFIG) -> DataFrame:
    """A streaming DataFrame of the changes of `schema.table`: see `cdc.run.read.changes.open_changes`.

    The session has to know Spark's Kafka source. `after`: a cut, behind which the changes begin.
    """
    return open_changes(spark, load(Path(config)), TableName.parse(table), after)


def token(connection: Connection) -> str:
    """The token of everything that is committed in the source now. Call it after the commit."""
    return take_token(connection)


def wait(token: str, follower: str, *names: str, seconds: float = WAIT_SECONDS, config: Config = CONFIG) -> str:
    """Wait until readers of a follower see everything up to a token; returns the LSN that they see.

    `names`: the tables and views that they read, `schema.table` each; all that the follower holds without any.
    """
    return wait_for_token(load(Path(config)), follower, token, seconds, list(map(TableName.parse, names)))
