"""Sends the same metrics by OTLP over HTTP, for OpenTelemetry: once an interval all that a scrape would see."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client import Metric as Family

from cdc.core.errors import ConfigurationError
from cdc.run.background import run_in_background

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData

EVERY_SECONDS: Final = 15.0
PATH: Final = "/v1/metrics"
TIMEOUT_SECONDS: Final = 10.0


@contextmanager
def send_metrics(registry: CollectorRegistry, url: str | None, say: Callable[[str], None]) -> Iterator[None]:
    """Send the metrics to a collector as long as the context lasts; does nothing without a URL.

    Headers, such as those of a login, are taken from OTEL_EXPORTER_OTLP_HEADERS, as OpenTelemetry has it. Raises
    ConfigurationError where its packages are not installed.
    """
    if url is None:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError:
        raise ConfigurationError("metrics.otlp needs OpenTelemetry", "pip install 'cdc-toolkit[otlp]'") from None
    endpoint = url if url.endswith(PATH) else f"{url.rstrip('/')}{PATH}"
    exporter = OTLPMetricExporter(endpoint=endpoint, timeout=TIMEOUT_SECONDS)
    started_ns = time.time_ns()

    def work(ended: threading.Event) -> None:
        works = True
        while not ended.wait(EVERY_SECONDS):
            sent = exporter.export(to_metrics_data(registry.collect(), started_ns)).name == "SUCCESS"
            if sent != works:
                say(f"metrics: {endpoint} {'takes them again' if sent else 'does not take them; tried again'}")
            works = sent

    with run_in_background(work, "otlp", TIMEOUT_SECONDS):
        yield
    exporter.shutdown()


def to_metrics_data(families: Any, started_ns: int) -> "MetricsData":
    """What Prometheus would scrape, as OpenTelemetry's values. Counters count since `started_ns` (since 1970)."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    now, scope = time.time_ns(), InstrumentationScope("cdc-toolkit")
    metrics = [metric for family in families if (metric := _to_metric(family, started_ns, now))]
    resource = Resource.create({"service.name": "cdc"})
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])


def _to_metric(family: Family, started_ns: int, now: int) -> "Metric | None":
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, Metric, Sum

    if not family.samples:
        return None
    total = AggregationTemporality.CUMULATIVE
    data: Gauge | Histogram | Sum
    if family.type == "histogram":
        data = Histogram(_histogram_points(family, started_ns, now), total)
    else:
        points = _number_points(family, started_ns, now)
        data = Sum(points, total, True) if family.type == "counter" else Gauge(points)
    unit = "s" if family.name.endswith("_seconds") else "By" if family.name.endswith("_bytes") else "1"
    return Metric(family.name, family.documentation, unit, data)


def _number_points(family: Family, started_ns: int, now: int) -> "list[Any]":
    from opentelemetry.sdk.metrics.export import NumberDataPoint

    since = started_ns if family.type == "counter" else now
    # prometheus-client adds the time when a counter was made, of which we know nothing
    samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
    return [NumberDataPoint(sample.labels, since, now, sample.value) for sample in samples]


def _histogram_points(family: Family, started_ns: int, now: int) -> "list[Any]":
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    series = dict[tuple[tuple[str, str], ...], dict[str, Any]]()
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        one = series.setdefault(labels, {"counts": {}, "sum": 0.0})
        if sample.name.endswith("_bucket"):
            one["counts"][float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            one["sum"] = sample.value
    return [HistogramDataPoint(dict(labels), started_ns, now, **_to_buckets(**one)) for labels, one in series.items()]


def _to_buckets(counts: dict[float, float], sum: float) -> dict[str, Any]:
    """Counts up to each bound, as counts between the bounds."""
    bounds = sorted(counts)
    before, between = 0, list[int]()
    for bound in bounds:
        between.append(round(counts[bound]) - before)
        before = round(counts[bound])
    # what is not kept: the least and the greatest value
    extremes = {"min": float("inf"), "max": float("-inf")}
    return {"count": before, "sum": sum, "bucket_counts": between, "explicit_bounds": bounds[:-1], **extremes}
