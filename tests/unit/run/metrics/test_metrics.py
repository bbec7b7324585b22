"""Metrics: one catalog, what is collected from a document, and that pages, rules and dashboard name what there is."""

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cdc.core.counters import GROUPS, REJECTED, SCHEMA_CHANGES, SEARCH, UPKEEP_SECONDS
from cdc.core.errors import PreconditionError
from cdc.run.metrics.catalog import BY_NAME, METRICS, PIPELINE, MetricKind, to_markdown
from cdc.run.metrics.collection import DocumentCollector
from cdc.run.metrics.dashboard import to_json
from cdc.run.metrics.samples import list_samples
from cdc.run.metrics.serving import metrics_app, serve_metrics
from cdc.run.status.document import About, Document, StatusProblem, StatusVerdict, Subject
from cdc.run.status.stream_report import FRESHNESS_BOUNDS, StreamReport
from cdc.run.status.things import (
    CopyStatus,
    FileCounts,
    FollowerStatus,
    Letters,
    Level,
    Part,
    Slot,
    State,
    TableStatus,
    Verification,
    View,
    to_time,
)

ROOM = Path(__file__).parents[4] / "cdc/run/metrics"
NOW = 1_700_000_000.0
SLOT = Slot(
    name="cdc_shop",
    state=State.BEHIND,
    word="filling",
    active=True,
    wal_status="extended",
    retained_bytes=1000,
    limit_bytes=4000,
    safe_bytes=3000,
    full_in_seconds=90.0,
    bytes_per_second=4.0,
    held_seconds=80.0,
    spilled_bytes=7,
    unconfirmed_bytes=9,
    inactive_seconds=3.0,
    xmin_age_transactions=5,
)
COPY = CopyStatus(phase="rows", done_rows=5, all_rows=10)
FULL = Document(
    schema=1,
    seq=3,
    at=to_time(NOW),
    every_seconds=2.0,
    took_ms=40,
    pipeline=About(name="shop", version="0.1.0"),
    verdict=StatusVerdict(level=Level.NOW, title="public.items is stopped"),
    problems={
        "x": StatusProblem(level=Level.NOW, subject=Subject(kind="table", name="public.items"), what="it is stopped")
    },
    parts={
        "source": Part(order=1, kind="Postgres", name="shop", state=State.OK, word="answers"),
        "log": Part(order=3, kind="Log", name="Kafka", state=State.SILENT, word="does not answer"),
    },
    slot=SLOT,
    followers={
        "lake": FollowerStatus(
            order=1,
            kind="delta",
            what="Delta tables",
            state=State.OK,
            word="current",
            behind_seconds=0.0,
            changes_waiting=0,
            bytes_waiting=0,
            headroom_seconds=3600.0,
        )
    },
    tables={
        "public.items": TableStatus(
            state=State.STOPPED, rows=3, changes_per_minute=1.5, changes_waiting=4, held_keys=1
        ),
        "public.orders": TableStatus(state=State.COPYING, copy=COPY),
    },
    views={"shop.totals": View(order=1, state=State.OK, word="kept up", shows_seconds=1.0, late=2)},
    letters={
        f"public.items|{n}": Letters(table="public.items", reason=f"not a date: {n}", keys=1, messages=2)
        for n in range(3)
    },
    verifications={
        "lake": Verification(at=to_time(NOW - 60), verdict="equal", oldest_at=to_time(NOW - 90), every_seconds=3600.0)
    },
    lake_files=FileCounts(files=3, small_files=1, bytes=90, dead_row_ratio=0.25),
    log_age_seconds=4.0,
    log_bytes={"changes": 1000, "transactions": 10},
    disk_free_bytes={"lake": 5000},
)
REPORT = StreamReport(
    at=NOW,
    began_at=NOW - 100,
    pid=1,
    batches=4,
    retries=1,
    commits=4,
    freshness_sum=8.0,
    buckets={str(bound): 3 if bound < 5 else 4 for bound in FRESHNESS_BOUNDS},
    batch_seconds=[0.5],
    batch_changes=[10],
    stages={"read": 1.0, "apply": 2.0},
    ops={"create": 30, "delete": 10},
    counts={SCHEMA_CHANGES: {"widened": 1}, SEARCH: {REJECTED: 5}, UPKEEP_SECONDS: {"": 1.5}, GROUPS: {"a.b": 7}},
)


OF_STREAMS = (
    *("cdc_follower_", "cdc_batch_", "cdc_freshness_", "cdc_schema_", "cdc_commit_", "cdc_upkeep_", "cdc_search_"),
    "cdc_view_recomputed_",
    "cdc_connector_starts_",
)


def registry(document: Document | None = FULL, *, by_table: bool = True) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(DocumentCollector("shop", lambda: document, lambda: {"lake": REPORT}, by_table=by_table))
    return made


def scraped(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    families = text_string_to_metric_families(text)
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for sample in (sample for family in families for sample in family.samples):
        found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_every_metric_of_the_catalog_is_told_with_its_labels() -> None:
    found = scraped(generate_latest(registry()).decode())
    expected = {metric.name for metric in METRICS if metric.kind is not MetricKind.HISTOGRAM}
    assert expected - found.keys() == set()
    for name in expected:
        for labels, _ in found[name]:
            assert labels.keys() == {PIPELINE, *BY_NAME[name].labels}, name
    assert found["cdc_up"] == [
        ({"pipeline": "shop", "part": "source"}, 1.0),
        ({"pipeline": "shop", "part": "log"}, 0.0),
    ]
    assert {labels["le"]: value for labels, value in found["cdc_freshness_seconds_bucket"]}["+Inf"] == 4.0
    assert found["cdc_freshness_seconds_sum"][0][1] == 8.0
    counted = {labels["op"]: value for labels, value in found["cdc_follower_changes_total"]}
    assert counted == {"create": 30.0, "delete": 10.0}
    # what has not happened yet is 0, so that its first time shows as a rise
    kinds = {labels["kind"]: value for labels, value in found["cdc_schema_changes_total"]}
    assert kinds == {"widened": 1.0, "altered": 0.0}
    assert [found[f"cdc_search_{kind}_total"][0][1] for kind in ("rejected", "stale", "failed")] == [5.0, 0.0, 0.0]
    # one series for a reason, whatever it says of each message
    letters = {"pipeline": "shop", "table": "public.items", "reason": "not a date"}
    assert found["cdc_dead_letters"] == [(letters, 6.0)]


def test_metrics_of_tables_can_be_left_out_and_nothing_is_made_up() -> None:
    found = scraped(generate_latest(registry(by_table=False)).decode())
    assert not [name for name in found if name in BY_NAME and BY_NAME[name].by_table]
    assert len(found["cdc_tables"]) == 2
    before = scraped(generate_latest(registry(None)).decode())
    assert [name for name in before if not name.startswith(OF_STREAMS)] == []


def test_every_sample_is_in_the_catalog() -> None:
    for sample in list_samples(FULL, NOW + 7):
        assert len(sample.labels) == len(BY_NAME[sample.name].labels), sample
    ages = {sample.name: sample.value for sample in list_samples(FULL, NOW + 7)}
    assert ages["cdc_status_age_seconds"] == 7.0


def test_the_page_matches_the_catalog() -> None:
    page = (ROOM / "METRICS.md").read_text()
    assert page.endswith(f"\n\n{to_markdown()}\n"), "write cdc.run.metrics.catalog.to_markdown() to its end"


def named_in(text: str) -> set[str]:
    return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bcdc_[a-z_]+", text)}


def test_rules_and_dashboard_name_metrics_that_exist() -> None:
    rules = re.findall("expr: (.*)", (ROOM / "alerts.yaml").read_text())
    panels = json.loads((ROOM / "dashboard.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(rules) == 30
    assert len(queries) > 20
    for query in (*rules, *queries):
        assert named_in(query), query
        assert named_in(query) <= BY_NAME.keys(), query
    assert (ROOM / "dashboard.json").read_text() == to_json()


@pytest.fixture
def promtool() -> str:
    if (found := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    return found


def test_promtool_takes_the_rules_and_the_metrics(promtool: str) -> None:
    rules = subprocess.run(
        [promtool, "check", "rules", ROOM / "alerts.yaml"], capture_output=True, check=False, text=True
    )
    assert rules.returncode == 0, rules.stdout + rules.stderr
    # its lint of names, too: units, suffixes, help
    told = subprocess.run(
        [promtool, "check", "metrics"], input=generate_latest(registry()), capture_output=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, b""), told.stderr.decode()


def test_metrics_are_served_on_loopback_alone() -> None:
    with serve_metrics(registry(), 0) as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics")
        assert answer.status_code == 200
        assert "cdc_slot_exhaustion_seconds" in scraped(answer.text)
        with (
            pytest.raises(PreconditionError, match=f"port {port} of 127.0.0.1 cannot be served"),
            serve_metrics(registry(), port),
        ):
            pass


def test_metrics_as_a_piece_of_another_server() -> None:
    async def scrape() -> httpx.Response:
        transport = httpx.ASGITransport(app=metrics_app(registry()))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get("/metrics")

    answer = asyncio.run(scrape())
    assert answer.status_code == 200
    assert "cdc_up" in scraped(answer.text)
