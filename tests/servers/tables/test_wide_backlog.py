"""A backlog of wide rows is more than a process holds at once: it becomes several cuts, whoever reads the rows."""

import pytest
from pyspark.sql import SparkSession

from cdc.columns.netting.ends import Ends
from cdc.run.copy.probe import wait_until_captured
from cdc.run.follow.lake.run_cuts import RunCuts
from tests.support.cdc_inprocess import bootstrap, catch_up, verify
from tests.support.lake.read_rows import read_rows
from tests.support.parts.pipelines import MakePipeline

ROWS = 40
WIDE = "UPDATE pages SET body = repeat(md5({n}::text), 16000) WHERE id = {n} % 5"
"""Half a megabyte in the log."""
KEYED = "CREATE TABLE pages (id int PRIMARY KEY, body text)"
KEYLESS = "CREATE TABLE pages (id int, body text); ALTER TABLE pages REPLICA IDENTITY FULL"


@pytest.mark.parametrize(("made", "has_history"), [(KEYED, False), (KEYED, True), (KEYLESS, False)])
def test_a_backlog_of_wide_rows_becomes_several_cuts(
    make_pipeline: MakePipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, made: str, has_history: bool
) -> None:
    for module in ("run_cuts", "lake_stream"):
        monkeypatch.setattr(f"cdc.run.follow.lake.{module}.MOST_RUN_BYTES", 3_000_000)
    # however fast they come: what has come whole is read, whatever its size
    monkeypatch.setattr("cdc.log.clients.standing_consumer.POLL_RECORDS", 1)
    refused, shrink = list[int](), RunCuts.shrink

    def note(cuts: RunCuts, run: Ends) -> None:
        refused.append(len(run))
        shrink(cuts, run)

    monkeypatch.setattr(RunCuts, "shrink", note)
    pipeline = make_pipeline(
        made,
        "INSERT INTO pages SELECT n, 'new' FROM generate_series(0, 4) n",
        "CREATE TABLE visits (id int PRIMARY KEY)",
        tables=("public.pages", "public.visits"),
        lake_only=True,
    )
    if has_history:
        pipeline.configure("followers:\n", "history: [public.pages]\n\nfollowers:\n")
    bootstrap(pipeline, spark)
    pipeline.run(*(WIDE.format(n=n) for n in range(ROWS)), "INSERT INTO visits SELECT generate_series(1, 100)")
    wait_until_captured(pipeline.opened(), pipeline.connection)
    catch_up(pipeline, spark)
    # the whole backlog first, then ever less of it, until it fits
    assert refused[0] > refused[-1] > 0
    assert verify(pipeline, spark).is_equal
    if has_history:
        versions = [row for row in read_rows(pipeline, "public.pages_history") if row["body"] != "new"]
        assert len(versions) == ROWS
        assert len({row["_batch"] for row in versions}) >= 4
