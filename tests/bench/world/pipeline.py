"""One pipeline of ours: a database, a configuration file, and the verbs, run as processes."""

import shlex
import shutil
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg import sql
from ruamel.yaml import YAML

from tests.bench.meter.meter import Meter
from tests.bench.world.jobs import Finished, Job, cdc_command, run, started
from tests.bench.world.parts import Parts
from tests.support.waiting import until

LAKE = "lake"
Settings = Mapping[str, Any]
"""Settings of `cdc.yaml`, nested as they are there."""

PAUSABLE = {"spark.network.timeout": "3600s"}
"""Spark's setting for a job that stands still for a while: it must not give itself up meanwhile."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline by its name, which is its database's too unless `database` says otherwise."""

    meter: Meter
    parts: Parts
    name: str
    database: str
    tables: Sequence[str]

    @property
    def config(self) -> Path:
        return self.parts.folder / f"{self.name}.yaml"

    @property
    def work(self) -> Path:
        """Where its processes run and what they say is kept."""
        return self.parts.folder / "work" / self.name

    @property
    def lake(self) -> Path:
        return self.parts.folder / "lakes" / self.name

    @property
    def cuts(self) -> Path:
        return self.lake / "_cdc" / "cuts"

    @property
    def transactions(self) -> str:
        """The topic that orders the commits."""
        return f"{self.name}.transaction"

    def folder(self, table: str) -> Path:
        return self.lake / "public" / table

    def topic(self, table: str) -> str:
        return f"{self.name}.public.{table}"

    def index(self, table: str) -> str:
        return f"{self.name}-public-{table}"

    def connection(self) -> "psycopg.Connection[Any]":
        return self.parts.connection(self.database)

    def bootstrap(self) -> Finished:
        return self.verb("bootstrap", "--json")

    def verb(self, *arguments: str, codes: Sequence[int] = (0,)) -> Finished:
        """Run a verb to its end."""
        return run(self.meter, cdc_command(self.config, *arguments), self.work, codes)

    def following(self, *followers: str) -> AbstractContextManager[Job]:
        """`cdc follow` of these followers, or of all, as long as the context lasts."""
        chosen = [f"--follower={name}" for name in followers]
        return started(self.meter, cdc_command(self.config, "follow", *chosen), self.work, "follow")

    def jars(self) -> list[str]:
        """The jars that our Spark gets, so that a stock one gets the same."""
        words = shlex.split(self.verb("submit", "--print").stdout)
        [path] = [
            line.partition("=")[2]
            for line in Path(words[words.index("--properties-file") + 1]).read_text().splitlines()
            if line.startswith("spark.driver.extraClassPath=")
        ]
        return path.split(":")

    def remove(self) -> None:
        """Take connector, slot, publication, indexes and lake away; database and topics stay."""
        connector = f"{self.parts.connect}/connectors/cdc-{self.name}"
        httpx.delete(connector, timeout=60)
        until(lambda: httpx.get(connector, timeout=60).status_code == httpx.codes.NOT_FOUND, "the connector is gone")
        with self.connection() as connection:
            self._remove_slot(connection)
        for index in httpx.get(f"{self.parts.search}/_cat/indices/{self.name}-*?h=index", timeout=60).text.split():
            httpx.delete(f"{self.parts.search}/{index}", timeout=60)
        shutil.rmtree(self.lake, ignore_errors=True)

    def _remove_slot(self, connection: "psycopg.Connection[Any]") -> None:
        slot = f"cdc_{self.name}"
        idle = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active"
        until(lambda: connection.execute(idle, (slot,)).fetchone() == (0,), "nobody reads from the slot")
        drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        connection.execute(drop, (slot,))
        connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(slot)))


def configured(pipeline: Pipeline, followers: Sequence[str] = (LAKE,), settings: Settings | None = None) -> Pipeline:
    """Write the pipeline's configuration as `cdc init --local` does, with these followers of its template.

    `settings` are further ones, nested as in the file; they win.
    """
    tables = [f"--table=public.{table}" for table in pipeline.tables]
    pipeline.verb("init", "--local", "--force", "--name", pipeline.name, *tables)
    yaml = YAML()
    text = yaml.load(pipeline.config)
    text["source"]["dbname"] = pipeline.database
    text["followers"] = {name: text["followers"][name] for name in followers}
    text["followers"][LAKE]["path"] = str(pipeline.lake)
    merge(text, settings or {})
    yaml.dump(text, pipeline.config)
    return pipeline


def merge(into: MutableMapping[str, Any], settings: Settings) -> None:
    """Lay nested settings over others."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            merge(into.setdefault(name, {}), value)
        else:
            into[name] = value


@contextmanager
def passing(pipeline: Pipeline) -> Iterator[Pipeline]:
    """A pipeline that is taken away again at the end."""
    try:
        yield pipeline
    finally:
        pipeline.remove()
