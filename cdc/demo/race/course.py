"""`cdc demo race`: the same writes twice, to database and index both, and to the database whose log is followed."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from pyspark.sql import SparkSession

from cdc.cli import output
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.demo import stage
from cdc.demo.following import followed
from cdc.demo.race import clients, story
from cdc.demo.race.outcome import Outcome
from cdc.demo.race.schedule import Schedule, schedule
from cdc.demo.race.stores import Stores, apart, index_rows, make_index, make_table, reported, table_rows
from cdc.demo.stage import Play, Stage
from cdc.demo.steps import Steps, note
from cdc.local.state_dir import Home
from cdc.run.copy import bootstrap
from cdc.run.follow.follow import follow
from cdc.run.pipeline import build_spark_session
from sinks.search.layout import index_name
from sinks.search.settings import SearchSettings

TABLE: Final = TableName("public", "race")
PLAY: Final = Play("cdc-race.yaml", "race", (str(TABLE),), ".cdc/race-lake")
DUAL_TABLE: Final = "dual_write"
DUAL_INDEX: Final = "dual-write"


def play(home: Home, pairs: int, seed: int) -> Outcome:
    """Run both halves; a second run empties the tables first, and keeps the pipeline.

    Raises CdcError as the parts of the toolkit do. What has diverged is in the outcome.
    """
    steps, plan = Steps(), schedule(seed, pairs)
    with steps.step("parts", "Starting Postgres, Kafka, Kafka Connect with Debezium, and OpenSearch, here"):
        found = stage.parts_up(home)
    on = stage.set_up(home, found, PLAY)
    with reported(), ThreadPoolExecutor(1) as waiting:
        make_table(on.dsn, TABLE.table)
        # Spark takes its time to start: that long the clients have been racing already
        spark = waiting.submit(build_spark_session, on.settings, "race", brief=True)
        dual = _dual_writes(steps, on, plan)
        through_log = _through_the_log(steps, on, plan, spark)
    steps.ended()
    keys = set(plan.pairs)
    return Outcome(
        seed=seed,
        failures=len(plan.failing),
        pairs=len(keys),
        dual_write_diverged=len(keys.intersection(dual)),
        partial_failure_diverged=len(set(dual) - keys),
        cdc_diverged=len(through_log),
    )


def _dual_writes(steps: Steps, on: Stage, plan: Schedule) -> list[str]:
    """The keys that end differently when the clients write to both stores."""
    stores = Stores(on.dsn, DUAL_TABLE, on.endpoints.search_url, DUAL_INDEX)
    make_table(on.dsn, DUAL_TABLE)
    make_index(on.endpoints.search_url, DUAL_INDEX)
    with steps.step("dual_writes", "Dual writes: each client writes to the database, then to the search index"):
        note(story.PROLOGUE)
        _write(stores, plan, "dual writes")
        table, index = table_rows(on.dsn, DUAL_TABLE), index_rows(on.endpoints.search_url, DUAL_INDEX)
        different = apart(table, index)
        note(story.damage(plan, table, index, different))
    return different


def _through_the_log(steps: Steps, on: Stage, plan: Schedule, spark: "Future[SparkSession]") -> list[str]:
    """The keys that end differently when the clients write to the database and the index follows the log."""
    with steps.step("bootstrap", "Through the log: capture the database's table, and let the index follow it"):
        with output.progress() as bars:
            bootstrap.bootstrap(on.settings, spark.result, note, bars)
        names = followed(on.settings, spark.result())
    with steps.step("writes", "The same writes again, by the same clients, to the database only"):
        _write(Stores(on.dsn, TABLE.table, on.endpoints.search_url, None), plan, "through the log")
    with steps.step("follow", f"cdc -c {stage.shown(on.config)} follow --until-caught-up"):
        follow(on.settings, spark.result, names, note, until_caught_up=True)
        table, index = table_rows(on.dsn, TABLE.table), index_rows(*_search(on))
        different = apart(table, index)
        note(f"the database holds {len(table):,} keys, the index {len(index):,}; {len(different):,} differ")
    return different


def _write(stores: Stores, plan: Schedule, what: str) -> None:
    """Everything that the plan has; the story of the figure's pair is told."""
    moments = [clients.in_order(stores, pair) for pair in plan.forced]
    note(story.timeline(plan.forced[0], moments[0]))
    with output.progress() as bars, bars.bar(f"raced, {what}", len(plan.raced)) as advance:
        clients.at_once(stores, plan.raced, advance)
    clients.failing(stores, plan.failing)


def _search(on: Stage) -> tuple[str, str]:
    """The index that the toolkit's own search follower writes, and where."""
    kinds: Sequence[SearchSettings] = [f for f in on.settings.followers.values() if isinstance(f, SearchSettings)]
    if not kinds:
        raise PreconditionError(f"{stage.shown(on.config)} has no follower of kind search", "remove that file")
    return kinds[0].url, index_name(kinds[0].prefix, TABLE)
