"""Views are kept up as their statements say, over tables of a lake, without servers."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc.columns.rows import digest as digests
from cdc.sinks.lake.table.compact import compact_files
from cdc.views.compiled import CompiledView
from cdc.views.definition import ViewDefinition
from cdc.views.spark.whole import WholeComputation
from cdc.views.upkeep.table_steps import Bounds
from tests.support.further import further
from tests.support.lake.cut_lake import CutLake
from tests.support.views.kept import Kept
from tests.support.views.sales import TABLES, order
from tests.support.waiting import until

CARD = ViewDefinition.of(
    "sales.card",
    "SELECT c.id, c.name, count(o.id) AS orders, sum(o.total) AS spent,"
    " collect_list(struct(o.id, o.placed_at, o.total)) AS list"
    " FROM public.customers c LEFT JOIN public.orders o ON o.customer_id = c.id GROUP BY c.id, c.name",
    ["id"],
)
BIG = ViewDefinition.of(
    "sales.big", "SELECT id, struct(name, orders AS n) AS who, spent FROM sales.card WHERE spent > 5", ["id"]
)
RANKING = ViewDefinition.of(
    "sales.ranking",
    "SELECT rank, id FROM (SELECT id, row_number() OVER (ORDER BY total DESC, id) AS rank FROM orders) WHERE rank <= 3",
    ["rank"],
)
NAMED = ViewDefinition.of("sales.named", "SELECT id, initcap(name) AS name FROM customers", ["id"])
"""`initcap` is not proven for DuckDB."""
VIEWS = (CARD, BIG, RANKING, NAMED)
CUTS = 8


def change(source: CutLake, random: Random) -> None:
    for _ in range(random.randint(1, 5)):
        match random.randrange(10):
            case 0:
                source.delete("customers", (random.randrange(6),))
            case 1 | 2:
                source.delete("orders", (random.randrange(12),))
            case 3 | 4:
                number = random.randrange(6)
                source.put("customers", {"id": number, "name": random.choice(["a", "b", None])})
            case _:
                source.put("orders", order(random.randrange(12), random))
    if random.random() < 0.05:
        source.truncate(random.choice(["customers", "orders"]))


@pytest.mark.parametrize("seed", [0, further("another seed", 1)])
def test_views_equal_their_statements_at_every_cut(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """By Spark at the last cut; before, by DuckDB what is proven for it. Further: by Spark at every cut."""
    kept, random = Kept(spark, tmp_path, TABLES, VIEWS), Random(seed)
    # the first fill by Spark, as that of large tables
    kept.restart(bounds=Bounds(small_rows=0))
    for number in range(CUTS):
        change(kept.source, random)
        cut = kept.keeper.bring(kept.source.cut())
        assert not [*kept.differences(cut, all_by_spark=seed > 0 or number == CUTS - 1)], number
        match random.randrange(6):
            case 0:
                kept.keeper.save()
                kept.restart()
            case 1:
                kept.restart()
            case 2:
                writer = kept.source.writer("orders")
                compact_files(writer, [*writer.snapshot.files])
    assert not [line for line in kept.said if "further" in line]


@pytest.mark.parametrize("limit", [0, digests.SMALL_BYTES], ids=["by Spark", "here"])
def test_a_wrong_key_of_what_spark_computed_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Whoever looks for it: one of few rows is sought in this process."""
    monkeypatch.setattr(digests, "SMALL_BYTES", limit)
    doubled = ViewDefinition.of("sales.doubled", "SELECT id % 2 AS id, initcap(name) AS name FROM customers", ["id"])
    of_null = ViewDefinition.of(
        "sales.of_null", "SELECT nullif(id, 1) AS id, initcap(name) AS name FROM customers", ["id"]
    )
    kept = Kept(spark, tmp_path, TABLES, [doubled, of_null, NAMED])
    kept.restart(bounds=Bounds(small_rows=0))
    for number in range(3):
        kept.source.put("customers", {"id": number, "name": "a"})
    cut = kept.keeper.bring(kept.source.cut())
    assert kept.rows(NAMED, cut) == kept.recompute(NAMED, cut)
    reasons = [stop.reason if stop else "" for stop in map(kept.store.find_stop, (doubled, of_null))]
    assert re.match(r"its key is not unique: 2 rows of the result.* id = 0", reasons[0])
    assert re.match(r"its key .*is null in a row of the result", reasons[1])


def test_a_whole_view_shows_the_cut_of_its_last_computation(spark: SparkSession, tmp_path: Path) -> None:
    kept, random = Kept(spark, tmp_path, TABLES, [RANKING]), Random(1)
    kept.restart(LONG_SECONDS, Bounds(wait_seconds=LONG_SECONDS))
    shown = None
    for number in range(6):
        kept.source.put("orders", order(number, random))
        cut = kept.keeper.bring(kept.source.cut())
        shown = shown or cut
        assert kept.store.shown_cut(cut, RANKING.name).position == shown.position
        assert kept.rows(RANKING, cut) == kept.recompute(RANKING, shown)
        # what it shows is known from the cut
        if number == 3:
            kept.restart(LONG_SECONDS, Bounds(wait_seconds=LONG_SECONDS))
            shown = None
    kept.source.put("customers", {"id": 1, "name": "a"})
    assert kept.keeper.bring(kept.source.cut()).as_of


LONG_SECONDS = 1e6


def test_a_view_stops_with_the_words_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever Python makes of the error: of a statement that fails as it runs, or as Spark plans it."""
    failing = ViewDefinition.of("sales.failing", "SELECT id, CAST(initcap(name) AS INT) AS n FROM customers", ["id"])
    nested = ViewDefinition.of(
        "sales.nested",
        "SELECT id, total FROM orders WHERE customer_id IN ((SELECT id FROM customers ORDER BY id LIMIT 6 OFFSET 2))",
        ["id"],
    )
    kept = Kept(spark, tmp_path, TABLES, [failing, nested, NAMED])
    for number in range(9):
        kept.source.put("customers", {"id": number, "name": "a"})
    cut = kept.keeper.bring(kept.source.cut())
    assert kept.rows(NAMED, cut) == kept.recompute(NAMED, cut)
    stops = [kept.store.find_stop(view) for view in (failing, nested)]
    assert [stop and stop.lsn for stop in stops] == [cut.position.lsn] * 2
    assert "[CAST_INVALID_INPUT]" in str(stops[0])
    assert "calling o" not in str(stops[1])


@pytest.mark.parametrize("small_rows", [20_000, 0], ids=["read here", "read by Spark"])
def test_a_view_that_takes_spark_long_holds_up_no_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_rows: int
) -> None:
    """And the process ends without it: its job goes on until that ends it."""
    uses = ", ".join(f"customers c{number}" for number in range(4))
    slow = ViewDefinition.of("sales.slow", f"SELECT c0.id, count(*) AS n FROM {uses} GROUP BY c0.id", ["id"])
    hold_job(monkeypatch, slow, tmp_path / "goes on")
    kept = Kept(spark, tmp_path, TABLES, [slow, NAMED])
    kept.restart(LONG_SECONDS, Bounds(small_rows=small_rows))
    # too many combinations for DuckDB in this process
    for number in range(33):
        kept.source.put("customers", {"id": number, "name": "a"})
    kept.keeper.advance(kept.source.cut())
    until(kept.keeper.fill_next, "one is filled")
    until(lambda: has_jobs(spark), "the other one is computed")
    for name in "bc":
        kept.source.put("customers", {"id": 1, "name": name})
        cut = kept.keeper.advance(kept.source.cut())
        assert kept.rows(NAMED, cut) == kept.recompute(NAMED, cut)
    # what was seen before may have been a job of the other one
    until(lambda: has_jobs(spark), "its job goes on")
    assert kept.store.find(slow) is None
    kept.keeper.close()
    until(lambda: not has_jobs(spark), "its job has ended")
    # else its worker would look for it for ever
    (tmp_path / "goes on").touch()


def hold_job(patched: pytest.MonkeyPatch, view: ViewDefinition, sign: Path) -> None:
    """Jobs of Spark that compute this view end no sooner than a file is there."""
    run, path = WholeComputation._run, str(sign)

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while not Path(path).exists():
            time.sleep(0.1)
        yield from batches

    @contextmanager
    def run_held(self: WholeComputation, compiled: CompiledView) -> Iterator[DataFrame]:
        with run(self, compiled) as result:
            # one task, which leaves the other core to the other view
            yield result.coalesce(1).mapInArrow(wait, result.schema) if compiled.definition is view else result

    patched.setattr(WholeComputation, "_run", run_held)


def has_jobs(spark: SparkSession) -> bool:
    return bool(spark.sparkContext.statusTracker().getActiveJobsIds())
