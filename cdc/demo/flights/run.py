"""`cdc demo`: copies real data into every follower, changes it while they follow, and compares every row."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final

import psycopg

from cdc.cli import output
from cdc.cli.progress import open_progress
from cdc.demo import environment
from cdc.demo.environment import DemoSettings, Environment
from cdc.demo.flights import data, traffic, workload
from cdc.demo.flights.traffic import WriteCounts
from cdc.demo.follow_thread import FollowThread
from cdc.demo.steps import Steps, note
from cdc.local.state_dir import Home
from cdc.progress import LineProgress
from cdc.run.copy import bootstrap
from cdc.run.pipeline import Pipeline
from cdc.run.spark.pipeline_session import build_spark_session
from cdc.run.verify.report import Report
from cdc.run.verify.verify import verify

DEMO: Final = DemoSettings("cdc-demo.yaml", "flights", data.NAMES, ".cdc/lake")
PATIENCE_SECONDS: Final = 600.0
KEYS_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of a demo: counts of rows and changes, durations, and the report of the comparison."""

    environment: Environment
    seed: int
    loaded: dict[str, int]
    copied: dict[str, int]
    writes: WriteCounts
    caught_up: dict[str, float]
    report: Report
    seconds: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Times, counts and verdicts."""
        return {
            "config": str(self.environment.config),
            "seed": self.seed,
            "rows_loaded": self.loaded,
            "rows_copied": self.copied,
            **asdict(self.writes),
            "caught_up_seconds": self.caught_up,
            "seconds": self.seconds,
            "verify": self.report.as_json(),
            "equal": self.report.is_equal,
        }


def run_demo(home: Home, changes: int, seed: int) -> DemoResult:
    """Run the whole demo; a second run goes on with the same database.

    Raises CdcError as the toolkit does. The result says whether the followers differ.
    """
    # first: it says which package is missing
    data.data_files()
    steps = Steps()
    with steps.step("parts", "Starting Postgres, Kafka, Kafka Connect with Debezium, and OpenSearch, here"):
        endpoints = environment.start_services(home)
    on = environment.set_up_environment(home, endpoints, DEMO)
    # autocommit: each planned transaction is opened and ended by itself
    with psycopg.connect(on.dsn, autocommit=True) as connection:
        with steps.step("load", "A real data set: every flight that left New York in 2013, in five tables"):
            loaded = _load(connection)
        with steps.step(
            "bootstrap", f"cdc -c {output.relative_path(on.config)} bootstrap: capture first, then the copies"
        ):
            # brief: the demo ends before Java's second compiler pays off
            spark = build_spark_session(on.settings, "demo", brief=True, progress=LineProgress(output.say))
            pipeline = Pipeline(on.settings, lambda: spark)
            copied = _bootstrap(pipeline)
        outcome = _follow_workload(steps, pipeline, connection, changes, seed)
    steps.finish()
    return DemoResult(on, seed, loaded, copied, *outcome, steps.seconds)


def _load(connection: psycopg.Connection) -> dict[str, int]:
    with open_progress() as progress:
        loaded = data.load(connection, progress)
    if not loaded:
        note("the tables are there already, and are used as they are")
    for table, rows in (loaded or data.count_rows(connection)).items():
        note(f"{table:<9} {rows:>9,} rows")
    return loaded


def _bootstrap(pipeline: Pipeline) -> dict[str, int]:
    with open_progress() as progress:
        outcome = bootstrap.bootstrap(pipeline, note, progress)
    for name, rows in outcome.copied.items():
        note(f"{name!s:<16} {rows:>9,} rows copied into the lake")
    if not outcome.has_changed:
        note("every table has its copy already")
    return {str(name): rows for name, rows in outcome.copied.items()}


def _follow_workload(
    steps: Steps, pipeline: Pipeline, connection: psycopg.Connection, changes: int, seed: int
) -> tuple[WriteCounts, dict[str, float], Report]:
    """Follow while the workload runs, until everything has arrived; then verify."""
    names = [*pipeline.settings.followers]
    with FollowThread(pipeline, names, note) as following:
        with steps.step("changes", f"{changes:,} changes in Postgres (seed {seed}), followed meanwhile"):
            written = _write(connection, changes, seed)
        with steps.step("catch_up", f"Waiting until {', '.join(names)} have what Postgres has"):
            caught_up = following.catch_up(PATIENCE_SECONDS)
            note(", ".join(f"{name} after {seconds:.1f} s" for name, seconds in caught_up.items()))
        # while they still follow: verify waits until the followers reach its LSN
        with steps.step("verify", "cdc verify: every follower and Postgres, row by row, at one LSN"):
            report = verify(pipeline.reopened(), names, PATIENCE_SECONDS, KEYS_NAMED)
            note("every row is the same" if report.is_equal else "not everything is the same")
    note("the followers have stopped, each after its last whole batch")
    return written, caught_up, report


def _write(connection: psycopg.Connection, changes: int, seed: int) -> WriteCounts:
    plan = workload.plan(seed, traffic.read_keys(connection, seed), changes)
    with open_progress() as progress, progress.bar("changed", changes) as advance:
        written = traffic.carry_out(connection, plan, advance)
    note(
        f"{written.changes:,} changed rows in {written.transactions:,} transactions,"
        f" {written.rolled_back:,} more were rolled back"
    )
    return written
