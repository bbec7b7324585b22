"""`cdc demo race`: the same writes twice: to database and index, then to the database whose log the index follows."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from cdc.cli import output
from cdc.cli.progress import open_progress
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.demo import environment
from cdc.demo.environment import DemoSettings, Environment
from cdc.demo.race import clients, story
from cdc.demo.race.outcome import RaceResult, judge_race
from cdc.demo.race.schedule import Schedule, plan_race
from cdc.demo.race.stores import Stores, find_differences, translate_errors
from cdc.demo.steps import Steps, note
from cdc.local.state_dir import Home
from cdc.run.copy import bootstrap
from cdc.run.follow.follow import follow
from cdc.run.pipeline import Pipeline
from cdc.run.spark.pipeline_session import build_spark_session
from cdc.sinks.opensearch.layout import index_name
from cdc.sinks.search.settings import SearchSettings

TABLE: Final = TableName("public", "race")
DEMO: Final = DemoSettings("cdc-race.yaml", "race", (str(TABLE),), ".cdc/race-lake")
DUAL_TABLE: Final = "dual_write"
DUAL_INDEX: Final = "dual-write"


def run_race(home: Home, pairs: int, seed: int) -> RaceResult:
    """Run both halves. A second run empties the tables first, and keeps the pipeline.

    Raises CdcError as the toolkit does. The result counts the keys that differ.
    """
    steps, plan = Steps(), plan_race(seed, pairs)
    with steps.step("parts", "Starting Postgres, Kafka, Kafka Connect with Debezium, and OpenSearch, here"):
        endpoints = environment.start_services(home)
    on = environment.set_up_environment(home, endpoints, DEMO)
    with translate_errors(), ThreadPoolExecutor(1) as waiting:
        # before bootstrap, which refuses a table that does not exist
        Stores(on.dsn, TABLE.table, on.endpoints.search_url, None).make()
        # Spark starts in a thread meanwhile, which takes seconds
        spark = waiting.submit(build_spark_session, on.settings, "race", brief=True)
        dual = _write_to_both(steps, on, plan)
        through_log = _write_through_log(steps, on, plan, Pipeline(on.settings, spark.result))
    steps.finish()
    return judge_race(plan, dual, through_log)


def _write_to_both(steps: Steps, on: Environment, plan: Schedule) -> list[str]:
    """Let the clients write to both stores; returns the keys that differ at the end."""
    stores = Stores(on.dsn, DUAL_TABLE, on.endpoints.search_url, DUAL_INDEX)
    stores.make()
    with steps.step("dual_writes", "Dual writes: each client writes to the database, then to the search index"):
        note(story.PROLOGUE)
        _write(stores, plan, "dual writes")
        table, index = stores.read()
        different = find_differences(table, index)
        note(story.describe_damage(plan, table, index, different))
    return different


def _bootstrap(pipeline: Pipeline) -> None:
    with open_progress() as progress:
        bootstrap.bootstrap(pipeline, note, progress)


def _write_through_log(steps: Steps, on: Environment, plan: Schedule, pipeline: Pipeline) -> list[str]:
    """Let the clients write to the database, and the index follow its log; returns the keys that differ then."""
    stores = Stores(on.dsn, TABLE.table, *_find_index(on))
    with steps.step("bootstrap", "Through the log: capture the database's table, and let the index follow it"):
        _bootstrap(pipeline)
    with steps.step("writes", "The same writes again, by the same clients, to the database only"):
        _write(replace(stores, index=None), plan, "through the log")
    with steps.step("follow", f"cdc -c {output.relative_path(on.config)} follow --until-caught-up"):
        follow(pipeline, [*on.settings.followers], note, until_caught_up=True)
        table, index = stores.read()
        different = find_differences(table, index)
        note(f"the database holds {len(table):,} keys, the index {len(index):,}; {len(different):,} differ")
    return different


def _write(stores: Stores, plan: Schedule, what: str) -> None:
    """Do all planned writes; print the timeline of the first pair, the book's figure."""
    with open_progress() as progress, progress.bar(f"raced, {what}", len(plan.raced)) as advance:
        first = clients.write_all(stores, plan, advance)
    note(story.format_timeline(plan.forced[0], first))


def _find_index(on: Environment) -> tuple[str, str]:
    """The URL and name of the index that the pipeline's search follower writes."""
    followers: Sequence[SearchSettings] = [f for f in on.settings.followers.values() if isinstance(f, SearchSettings)]
    if not followers:
        raise PreconditionError(f"{output.relative_path(on.config)} has no follower of kind search", "remove that file")
    return followers[0].url, index_name(followers[0].prefix, TABLE)
