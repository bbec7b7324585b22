"""The verbs in this process, on the run's one Spark session."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest
from pyspark.sql import SparkSession

from cdc.cli.output import say
from cdc.core.errors import IncompleteError
from cdc.core.table import TableName
from cdc.progress import LineProgress
from cdc.run.copy.bootstrap import BootstrapResult
from cdc.run.copy.bootstrap import bootstrap as run_bootstrap
from cdc.run.copy.recapture import RecaptureResult, recapture
from cdc.run.follow.follow import follow
from cdc.run.pipeline import select_followers
from cdc.run.status.document import Document
from cdc.run.status.watch import look_once
from cdc.run.verify.report import Report
from cdc.run.verify.verify import verify as run_verify
from tests.support.cdc_subprocess import LIMIT_SECONDS
from tests.support.parts.pipelines import Pipeline
from tests.support.waiting import until

SESSIONS = ("cdc.run.spark.pipeline_session", "cdc.demo.race.run", "cdc.demo.flights.run")
"""Modules by whose `build_spark_session` the verbs of the command line get a session."""
LINES_TOLD = 30
"""Of what `cdc follow` has said, with a failure."""


def lend_session(spark: SparkSession, patched: pytest.MonkeyPatch) -> None:
    """Let `cdc.__main__.main` work with this session, where a verb would build one of its own."""
    for module in SESSIONS:
        patched.setattr(f"{module}.build_spark_session", lambda *_, **__: spark)


def lend(left: list[Pipeline], make: Callable[[], Pipeline]) -> Iterator[Pipeline]:
    """The pipeline that the test before has left, or else a new one; left to the next test unless it has problems."""
    lent = left.pop() if left else make()
    yield lent
    if not problems(lent):
        left.append(lent)


def lend_bootstrapped(left: list[Pipeline], spark: SparkSession, make: Callable[[], Pipeline]) -> Iterator[Pipeline]:
    """As `lend`, with a new pipeline bootstrapped."""

    def make_followed() -> Pipeline:
        made = make()
        bootstrap(made, spark)
        return made

    yield from lend(left, make_followed)


def bootstrap(pipeline: Pipeline, spark: SparkSession, *again: str) -> BootstrapResult:
    names = [TableName.parse(name) for name in again]
    return run_bootstrap(pipeline.opened(spark), say, LineProgress(say, clock=lambda: 0.0), names)


def recapture_all(pipeline: Pipeline, spark: SparkSession) -> RecaptureResult:
    """Start the capture anew, and copy all tables again."""
    return recapture(pipeline.opened(spark), say, LineProgress(say, clock=lambda: 0.0))


def catch_up(pipeline: Pipeline, spark: SparkSession) -> None:
    opened = pipeline.opened(spark)
    follow(opened, select_followers(opened.settings, ()), say, until_caught_up=True)


def catch_up_but_for(pipeline: Pipeline, spark: SparkSession, told: str) -> str:
    """The followers catch up, but for tables that are stopped or keys that are held, which is told; all of that."""
    with pytest.raises(IncompleteError, match=told) as left:
        catch_up(pipeline, spark)
    return str(left.value)


def status_of(pipeline: Pipeline) -> Document:
    """What `status` shows."""
    return look_once(pipeline.opened())


def problems(pipeline: Pipeline) -> list[str]:
    """What `status` finds wrong, and ends with an error for."""
    return [str(problem) for problem in status_of(pipeline).problems.values() if problem.exit_code]


def verify(pipeline: Pipeline, spark: SparkSession, *tables: TableName) -> Report:
    opened = pipeline.opened(spark)
    return run_verify(opened, select_followers(opened.settings, ()), LIMIT_SECONDS, 10, tables)


class Following:
    """`follow` in a thread of this process, and what it has said."""

    def __init__(
        self, pipeline: Pipeline, spark: SparkSession, names: Sequence[str], *, until_caught_up: bool = False
    ) -> None:
        self.stopping = threading.Event()
        self.said: list[str] = []
        self._heard = 0
        self.failure: BaseException | None = None
        asked = partial(follow, pipeline.opened(spark), names, self.said.append)
        self._run = partial(asked, until_caught_up=until_caught_up, stopping=self.stopping)
        self._thread = threading.Thread(target=self._guarded)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.stopping.set()
        self._thread.join()

    def join(self) -> None:
        """Return when it ends by itself."""
        until(lambda: not self._thread.is_alive(), "it ends by itself", LIMIT_SECONDS)

    def wait_for(self, text: str) -> None:
        """Return when it has said so since what was waited for last; fail when it ends before."""
        until(lambda: self._next(text) > 0 or not self._thread.is_alive(), f"it says {text!r}", LIMIT_SECONDS)
        found = self._next(text)
        assert found, (text, self.said, self.failure)
        self._heard = found

    def wait_for_each(self, *texts: str) -> None:
        """Return when it has said all of these, in whichever order, since what was waited for last."""
        heard = self._heard
        lines = []
        for text in texts:
            self._heard = heard
            self.wait_for(text)
            lines.append(self._heard)
        self._heard = max(lines)

    def _next(self, text: str) -> int:
        """How many lines have been said up to the next with this text; 0 where there is none yet."""
        return next((n for n, line in enumerate(self.said, 1) if n > self._heard and text in line), 0)

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001
            self.failure = error


@contextmanager
def started(pipeline: Pipeline, spark: SparkSession, *names: str) -> Iterator[Following]:
    """These followers are kept in sync meanwhile, unless that fails, which is noted only."""
    running = Following(pipeline, spark, names)
    running.start()
    try:
        yield running
    finally:
        running.end()


@contextmanager
def following(pipeline: Pipeline, spark: SparkSession, *names: str) -> Iterator[Following]:
    """These followers, or all of them, are kept in sync meanwhile."""
    with started(pipeline, spark, *(names or select_followers(pipeline.settings, ()))) as running:
        try:
            yield running
        except Exception as failed:
            # what happened instead of what was waited for
            failed.add_note("\n".join(["`cdc follow` said last:", *running.said[-LINES_TOLD:]]))
            raise
    if running.failure:
        raise AssertionError(running.said[-5:]) from running.failure
