"""Lost history between source and log is found, and `cdc recapture` repairs it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from pyspark.sql import SparkSession

from cdc.connect.source.registration import make_register_sql, read_registration
from cdc.core.errors import HistoryLostError, PreconditionError, TableRewrittenError
from cdc.snapshots.shared_snapshot import SharedSnapshot, hold_snapshot
from tests.faults.losses.losses import (
    FED_LOSS,
    LOSSES,
    SCHEMA,
    TABLES,
    check_recaptured,
    check_reported,
    follow_changes,
)
from tests.support.cdc_inprocess import (
    bootstrap,
    catch_up,
    lend,
    problems,
    recapture_all,
)
from tests.support.further import further
from tests.support.parts.pipelines import MakePipeline, Pipeline


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """Two tables that the lake follows, with changes applied; each test ends with all of it repaired."""
    yield from lend(left, lambda: follow_changes(make_shared_pipeline(*SCHEMA, tables=TABLES, lake_only=True), spark))


@pytest.fixture
def fed_pipeline(make_pipeline: MakePipeline, spark: SparkSession) -> Pipeline:
    """The same with all followers."""
    return follow_changes(make_pipeline(*SCHEMA, tables=TABLES), spark)


TRIED_ELSEWHERE = ("slot moved", "slot made anew")


@pytest.mark.parametrize(
    "loss", [further(loss, loss) if loss in TRIED_ELSEWHERE else loss for loss in LOSSES if loss != FED_LOSS]
)
def test_lost_history_is_reported_and_recaptured(pipeline: Pipeline, spark: SparkSession, loss: str) -> None:
    """A slot that was moved is told by the same words in `test_while_followed.py`; one that was made anew stands where
    nothing of the log is, as one that was moved does."""
    check_reported(pipeline, spark, loss)
    check_recaptured(pipeline, spark)


def test_a_copy_that_starts_over_begins_at_the_new_slot(pipeline: Pipeline, spark: SparkSession) -> None:
    """A table is rewritten before the recapture has started its connector, whose old offset is below the new slot."""
    check_reported(pipeline, spark, "slot dropped")
    tries = list[str]()

    @contextmanager
    def rewrite_first(*taken: Any) -> Iterator[SharedSnapshot]:
        with hold_snapshot(*taken) as held:
            tries.append(held.snapshot)
            if len(tries) == 1:
                raise TableRewrittenError("public.things was rewritten while its copy began", "start again")
            yield held

    with patch("cdc.run.copy.snapshot_copy.hold_snapshot", rewrite_first):
        check_recaptured(pipeline, spark)
    assert len(tries) == 2


OTHERS = {
    "registered with another": (
        "SELECT pg_create_logical_replication_slot('other', 'pgoutput')",
        "SELECT",
        "was prepared with source.slot 'cdc_.*', not 'other'",
    ),
    "of another pipeline": (
        "SELECT pg_create_logical_replication_slot('other', 'pgoutput')",
        "UPDATE cdc.pipeline SET pipeline = 'another', slot = 'other'",
        "slot other is another pipeline's in this database",
    ),
    "of another kind": (
        "SELECT pg_create_physical_replication_slot('other')",
        "DELETE FROM cdc.pipeline",
        "slot other is not a logical one of pgoutput in database",
    ),
}


@pytest.mark.parametrize("make", OTHERS)
def test_a_slot_of_somebody_else_is_not_dropped(pipeline: Pipeline, spark: SparkSession, make: str) -> None:
    """Somebody has written its name into the file."""
    statement, registered, told = OTHERS[make]
    before = read_registration(pipeline.connection, pipeline.settings.source, pipeline.settings.pipeline.name)
    assert before is not None
    pipeline.run(statement, registered)
    pipeline.configure("source:\n", "source:\n  slot: other\n")
    with pytest.raises(PreconditionError, match=told):
        recapture_all(pipeline, spark)
    pipeline.opened().lake_follower.cuts.check_capture()
    # fails if it is not there
    pipeline.run("SELECT pg_drop_replication_slot('other')", "DELETE FROM cdc.pipeline")
    pipeline.configure("source:\n  slot: other\n", "source:\n")
    pipeline.connection.execute(make_register_sql(pipeline.settings.source, before))
    assert not problems(pipeline)


INTERRUPTED = (
    "cdc.run.copy.recapture._drop_old_capture",
    "cdc.run.copy.recapture._read_ordering_ends",
    "cdc.run.copy.recapture._swap_copies",
    # between two tables' copies
    "cdc.sinks.lake.follower.DeltaFollower.start_over",
)
"""Where a recapture is killed."""


@pytest.mark.parametrize("steps", [pytest.param(INTERRUPTED[1::2], id="some"), further("each", INTERRUPTED)])
def test_followers_go_on_after_interrupted_recaptures(
    fed_pipeline: Pipeline, spark: SparkSession, steps: Sequence[str]
) -> None:
    """One pipeline for all places where a recapture may be killed, one after the other: the new capture is there, or a
    part of the copies; further ones lie right before these."""
    check_reported(fed_pipeline, spark, FED_LOSS)
    indexed = count_documents(fed_pipeline)

    def check_documents() -> None:
        # who searches has what was there, until the followers behind the lake go on
        assert count_documents(fed_pipeline) == indexed

    for step in steps:
        check_interrupted(fed_pipeline, spark, step)
        check_documents()
    check_recaptured(fed_pipeline, spark, check_documents)


def check_interrupted(pipeline: Pipeline, spark: SparkSession, step: str) -> None:
    """Each verb tells of a recapture that was killed at this step."""
    with patch(step, kill), pytest.raises(Killed):
        recapture_all(pipeline, spark)
    for verb in (catch_up, bootstrap):
        with pytest.raises(
            HistoryLostError, match="a recapture was begun and not finished → run `cdc recapture` again"
        ):
            verb(pipeline, spark)


def count_documents(pipeline: Pipeline) -> int:
    """How many documents a search of `things` finds."""
    found = httpx.get(f"{pipeline.servers.values.search_url}/{pipeline.settings.pipeline.name}-public-things/_count")
    return int(found.json()["count"])


class Killed(Exception):
    """The process ends here."""


def kill(*_: object, **__: object) -> None:
    raise Killed
