"""Pipelines for tests, each on a database of its own, taken away afterwards."""

import gc
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from cdc.config.file import load
from cdc.config.init import TemplateValues, template
from cdc.config.settings import PipelineSettings
from tests.support.parts.removal import Remove, Traces
from tests.support.parts.servers_fixture import Servers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc.run.pipeline import Pipeline as OpenedPipeline
    from cdc.run.pipeline import StartSpark


_OPENED: "list[OpenedPipeline]" = []


@dataclass(frozen=True)
class Pipeline:
    """A pipeline of a test: its configuration file, and a session on its database."""

    config: Path
    servers: Servers
    connection: "psycopg.Connection[Any]"
    environ: dict[str, str]

    @property
    def settings(self) -> PipelineSettings:
        return load(self.config, {**os.environ, **self.environ})

    @property
    def traces(self) -> Traces:
        found = self.settings
        return Traces(found.connect.url, found.connect.connector, found.source.dbname, found.pipeline.name)

    def opened(self, spark: "SparkSession | StartSpark | None" = None) -> "OpenedPipeline":
        """The pipeline as jobs take it, with nothing opened yet; what is opened of it is closed after the test."""
        from cdc.run.pipeline import Pipeline as OpenedPipeline

        opened = OpenedPipeline(self.settings, spark if spark is None or callable(spark) else lambda: spark)
        _OPENED.append(opened)
        return opened

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement.encode())

    def set_environ(self, patched: pytest.MonkeyPatch) -> None:
        """Give this process what the configuration file refers to."""
        for name, value in self.environ.items():
            patched.setenv(name, value)

    def configure(self, old: str, new: str) -> None:
        """Change the configuration file's text."""
        text = self.config.read_text()
        assert old in text
        self.config.write_text(text.replace(old, new))


NO_BLANK = "_plain"
"""The end of a folder's name for what cannot read a path with a blank."""

MakePipeline = Callable[..., Pipeline]

END_SENDERS = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()"
"""Ends the connection of a pipeline's connector, and of no other's."""

QUICKER = {
    "cdc.run.copy.resync_queue.RETRY_SECONDS": 2.0,
    "cdc.run.copy.resync_queue.BACKOFF_FACTOR": 1,
    "cdc.run.copy.fill.RETRY_SECONDS": 1.0,
    "cdc.run.copy.fill.LOOK_SECONDS": 1.0,
    "cdc.run.health.patience.LOOK_SECONDS": 1.0,
    "cdc.run.follow.follow.LOOK_SECONDS": 1.0,
    "cdc.run.verify.catch_up.POLL_SECONDS": 0.1,
}
"""Seconds between two looks or tries in a test, where a user's are 0.5 to 30."""


LOOKS = ("trigger_seconds: 0.2", "trigger_seconds: 0.5")
"""How often a lake's stream looks for transactions, at a user's and in a test: looks that found nothing were 7 % of the
processor time of Spark."""


@pytest.fixture(autouse=True)
def close_opened() -> Iterator[None]:
    """Closes what the test has opened of pipelines: clients that wait for a collector disturb the next tests."""
    yield
    close_all_opened()


@pytest.fixture
def quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be copied is tried again sooner than at a user's, since there are no large tables that a try may have
    read, and looks at capture and indexes follow each other faster."""
    for name, value in QUICKER.items():
        monkeypatch.setattr(name, value)


def expect_no_kafka(patched: pytest.MonkeyPatch) -> None:
    """A request that a Kafka does not answer is given up after a second, where a user's is after ten."""
    for module in ("connection", "partitions", "topics", "cluster"):
        patched.setattr(f"cdc.log.clients.{module}.REQUEST_SECONDS", 1.0)


@pytest.fixture
def make_pipeline(servers: Servers, tmp_path: Path, quicker: None, removal: Remove) -> Iterator[MakePipeline]:
    """Makes pipelines on databases of their own; connector, slot and database are taken away afterwards.

    `dbname`: what a database's name ends with, `made_with`: further words of its CREATE DATABASE. `lake_only`: nothing
    follows the lake, which saves half of the time where only the capture matters. `beside`: a pipeline on whose
    database it is. `folder_name`: what its folder's name ends with, by default something with a blank.
    """
    with pipelines(servers, tmp_path, removal) as make:
        yield make


@pytest.fixture(scope="module")
def make_shared_pipeline(
    servers: Servers, tmp_path_factory: pytest.TempPathFactory, removal: Remove
) -> Iterator[MakePipeline]:
    """Makes pipelines for several tests of a module, which ask for `quicker` as well."""
    with pipelines(servers, tmp_path_factory.mktemp("shared"), removal) as make:
        yield make


@pytest.fixture(scope="module")
def left() -> list[Pipeline]:
    """The pipeline that the test before has left without problems, if it has: see `lend`."""
    return []


@contextmanager
def pipelines(servers: Servers, folder: Path, remove: Remove) -> Iterator[MakePipeline]:
    """Makes pipelines below the folder, and has their traces removed at the end."""
    made: list[Pipeline] = []

    def make(
        *statements: str,
        tables: tuple[str, ...],
        dbname: str = "",
        made_with: str = "",
        lake_only: bool = False,
        beside: Pipeline | None = None,
        folder_name: str = " of a test",
    ) -> Pipeline:
        name = f"t{secrets.token_hex(5)}"
        database = beside.settings.source.dbname if beside else f"{name}{dbname}"
        if not beside:
            with servers.connect() as admin:
                admin.execute(sql.SQL("CREATE DATABASE {} ").format(sql.Identifier(database)) + sql.SQL(made_with))
        own = folder / f"{name}{folder_name}"
        own.mkdir()
        config = own / "cdc.yaml"
        text = configuration(replace(servers.values, name=name, dbname=database, tables=tables), lake_only=lake_only)
        config.write_text(text)
        environ = {"CDC_TEST_PASSWORD": servers.password}
        pipeline = Pipeline(config, servers, servers.connect(database), environ)
        made.append(pipeline)
        pipeline.run(*statements)
        return pipeline

    try:
        yield make
    finally:
        close_all_opened()
        for pipeline in made:
            pipeline.connection.close()
        remove(servers, [pipeline.traces for pipeline in made])
        # maps of indexes and threads of followers, which a `follow` in this process lets the collector find hours later
        gc.collect()


def configuration(values: TemplateValues, *, lake_only: bool) -> str:
    """A new configuration file's text, for a lake that looks less often than a user's."""
    text = template(values)
    assert LOOKS[0] in text
    text = text.replace(*LOOKS)
    return without_followers(text, "search", "latest") if lake_only else text


def close_all_opened() -> None:
    """Close what `Pipeline.opened` has given, but for what was taken."""
    while _OPENED:
        _OPENED.pop().close()


def take_opened() -> "OpenedPipeline":
    """What `Pipeline.opened` has given last; whoever takes it closes it."""
    return _OPENED.pop()


def without_followers(text: str, *names: str) -> str:
    """A configuration file's text without the blocks of these followers."""
    for name in names:
        text, count = re.subn(rf"^  {name}:.*\n(?:    .*\n|\s*\n)*", "", text, flags=re.MULTILINE)
        assert count == 1
    return text
