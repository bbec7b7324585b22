"""The stock sides of a pipeline: copies beside ours, fed from the same topics or read from the same Postgres."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.world import log
from tests.bench.world.jobs import Finished, Job, run, started, stock_command
from tests.bench.world.pipeline import PAUSABLE, Pipeline
from tests.bench.world.source import Source

TRIGGER = "1 second"
"""As often as ours looks for new transactions by default."""
MANY = 10
SMALL_TABLES = {"spark.databricks.delta.snapshotPartitions": "1", "spark.kafka.consumer.cache.capacity": "1024"}
"""For many of them: Delta's state of a table comes from 50 tasks otherwise, and more than 64 consumers are not kept."""
AT_ONCE = 4
"""Of many tables, so many MERGEs go on at once, as those who have many tables do it."""


@dataclass(frozen=True, slots=True)
class Stock:
    """A pipeline's stock side: the same tables, in a folder of its own."""

    pipeline: Pipeline
    source: Source
    jars: Sequence[str]
    starting_offsets: log.Offsets
    """Where its topics ended when it was copied."""
    partitions: int = 2

    @property
    def work(self) -> Path:
        return self.pipeline.parts.folder / "work" / f"{self.pipeline.name}-stock"

    def folder(self, table: str) -> Path:
        return self.pipeline.parts.folder / "lakes" / f"{self.pipeline.name}-stock" / table

    def index(self, table: str) -> str:
        return f"{self.pipeline.name}-stock-{table}"

    def copy(self, tables: Mapping[str, int]) -> Finished:
        """Copy tables (name to rows) by Spark's JDBC source; tells the seconds without Spark's start."""
        return self._jdbc("jdbc_copy", tables)

    def compare(self, tables: Mapping[str, int]) -> Finished:
        """Compare the copies with the source by exceptAll."""
        return self._jdbc("jdbc_compare", tables)

    def merging(self, tables: Sequence[str], name: str = "merge") -> AbstractContextManager[Job]:
        """The stock job to the lake, as long as the context lasts; it goes on from its checkpoint."""
        folders = {self.pipeline.topic(table): str(self.folder(table)) for table in tables}
        at_once, conf = (AT_ONCE, SMALL_TABLES) if len(tables) >= MANY else (1, {})
        more = {"topics": folders, "at_once": at_once, "conf": PAUSABLE | conf}
        return self._streaming("merge_job", name, tables, more)

    def indexing(self, tables: Sequence[str]) -> AbstractContextManager[Job]:
        """The stock job to the index."""
        indexes = {self.pipeline.topic(table): self.index(table) for table in tables}
        return self._streaming(
            "search_job", "search", tables, {"topics": indexes, "search": self.pipeline.parts.search}
        )

    def _streaming(
        self, module: str, name: str, tables: Sequence[str], more: Mapping[str, object]
    ) -> AbstractContextManager[Job]:
        work, topics = self.work / name, [self.pipeline.topic(table) for table in tables]
        settings = {
            "jars": self.jars,
            "kafka": self.pipeline.parts.kafka,
            "starting_offsets": json.dumps({topic: self.starting_offsets[topic] for topic in topics}),
            "checkpoint": str(work / "checkpoint"),
            "trigger": TRIGGER,
            **more,
        }
        return started(self.pipeline.meter, stock_command(module, settings, work), work, name)

    def _jdbc(self, module: str, tables: Mapping[str, int]) -> Finished:
        parts = self.pipeline.parts
        settings = {
            "jars": self.jars,
            "jdbc": f"jdbc:postgresql://{parts.host}:{parts.port}/{self.source.database}",
            "user": parts.user,
            "password": parts.password,
            "tables": {table: str(self.folder(table)) for table in tables},
            "partitions": self.partitions,
            "highest": max(tables.values()),
        }
        return run(self.pipeline.meter, stock_command(module, settings, self.work), self.work)


def stock_of(pipeline: Pipeline, source: Source) -> Stock:
    """The stock side of a bootstrapped pipeline that nobody writes to now."""
    topics = [pipeline.topic(table) for table in pipeline.tables]
    return Stock(pipeline, source, pipeline.jars(), log.end_offsets(pipeline.parts.kafka, topics))
