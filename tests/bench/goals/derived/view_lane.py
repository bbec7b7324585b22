"""Sides that keep a customer card up: our views, REFRESH in Postgres, and Spark that computes it whole."""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from psycopg import sql

from tests.bench.goals.lane import START_SECONDS
from tests.bench.world.contents import Contents
from tests.bench.world.derived import cards
from tests.bench.world.derived.cards import PLAIN
from tests.bench.world.derived.shop import ShopTables
from tests.bench.world.derived.views import VIEWS, RefreshSight, computed_cuts, view_cuts, view_folder
from tests.bench.world.jobs import Job, started, stock_command
from tests.bench.world.pipeline import LAKE, Pipeline
from tests.bench.world.stock import SMALL_TABLES
from tests.bench.world.visible import Sight, cuts_seen, newest_cut
from tests.support.waiting import until

CARD = "card"
REFRESH = "refresh"
"""What computes the whole view again and again, as the meter calls it."""


@dataclass(frozen=True, slots=True)
class ViewLane:
    """Ours: `cdc follow` with its views, read at their cuts."""

    pipeline: Pipeline
    views: Sequence[str] = (CARD,)
    followers: Sequence[str] = (LAKE, VIEWS)

    def running(self) -> AbstractContextManager[Job]:
        return self.pipeline.following(*self.followers)

    def watched(self, tables: Sequence[str]) -> AbstractContextManager[Sight]:
        return cuts_seen(view_cuts(self.pipeline))

    def contents(self, table: str) -> Contents:
        """Of all its views together, whichever table changed."""
        versions = newest_cut(view_cuts(self.pipeline))
        parts = (cards.in_delta(view_folder(self.pipeline, v), versions[f"{cards.SCHEMA}.{v}"]) for v in self.views)
        return cards.added(parts)


@dataclass(frozen=True, slots=True)
class AloneLane:
    """`cdc follow` of the lake alone: what a view costs is what is taken above this."""

    pipeline: Pipeline

    def running(self) -> AbstractContextManager[Job]:
        return self.pipeline.following(LAKE)

    def watched(self, tables: Sequence[str]) -> AbstractContextManager[Sight]:
        return cuts_seen(self.pipeline.cuts)

    def contents(self, table: str) -> Contents:
        cut, lane = newest_cut(self.pipeline.cuts), self.pipeline
        versions = [cut[f"public.{name}"] for name in PLAIN.both]
        return cards.by_duckdb(lane.folder(PLAIN.customers), lane.folder(PLAIN.orders), versions)


@dataclass(frozen=True, slots=True)
class RefreshLane:
    """REFRESH MATERIALIZED VIEW CONCURRENTLY in the source, in a loop."""

    pipeline: Pipeline

    def prepare(self) -> None:
        """Make and fill the materialized view."""
        with self.pipeline.connection() as connection:
            statement = f"CREATE MATERIALIZED VIEW {CARD} AS {cards.card(engine='postgres')}"
            connection.execute(statement.encode())
            # CONCURRENTLY needs it
            connection.execute(sql.SQL("CREATE UNIQUE INDEX ON {} (id)").format(sql.Identifier(CARD)))
            connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(CARD)))

    @contextmanager
    def running(self) -> Iterator[Job]:
        meter, parts = self.pipeline.meter, self.pipeline.parts
        settings = {"conninfo": parts.conninfo(self.pipeline.database), "view": CARD}
        work = self.pipeline.work / REFRESH
        with started(meter, stock_command("refresh_job", settings, work), work, REFRESH) as job:
            until(lambda: "\n" in job.stdout.read_text() or job.check(), "a session that refreshes", START_SECONDS)
            backend = json.loads(job.stdout.read_text().split("\n")[0])["pid"]
            meter.watch(backend, REFRESH)
            try:
                yield job
            finally:
                meter.leave(backend)

    @contextmanager
    def watched(self, tables: Sequence[str]) -> Iterator[Sight]:
        told = self.pipeline.work / REFRESH / f"{REFRESH}.out"
        told.parent.mkdir(parents=True, exist_ok=True)
        # what an earlier run told is not this one's
        told.write_text("")
        yield RefreshSight(told)

    def contents(self, table: str) -> Contents:
        with self.pipeline.connection() as connection:
            return cards.in_postgres(connection, CARD)


@dataclass(frozen=True, slots=True)
class WholeLane:
    """Spark that computes the view whole from the lake's newest cut, in a loop, beside `cdc follow` of the lake."""

    pipeline: Pipeline
    jars: Sequence[str]
    tables: ShopTables = PLAIN

    @contextmanager
    def running(self) -> Iterator[Job]:
        settings = {
            "jars": self.jars,
            "conf": SMALL_TABLES,
            "cuts": str(self.pipeline.cuts),
            "tables": {name: str(self.pipeline.folder(name)) for name in self.tables.both},
            "statement": cards.without_schema(cards.card(self.tables)),
            "into": str(self._folder),
        }
        meter, work = self.pipeline.meter, self.pipeline.work / "whole"
        command = stock_command("whole_job", settings, work)
        with self.pipeline.following(LAKE), started(meter, command, work, "whole") as job:
            # all of it, Python and Java: for the view there is nothing else
            meter.watch(job.process.pid, REFRESH)
            yield job

    def watched(self, tables: Sequence[str]) -> AbstractContextManager[Sight]:
        return computed_cuts(self._folder)

    def contents(self, table: str) -> Contents:
        return cards.in_delta(self._folder)

    @property
    def _folder(self) -> Path:
        return self.pipeline.lake.with_name(f"{self.pipeline.name}-whole") / CARD
