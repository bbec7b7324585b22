"""A collector of prometheus-client over the status document: a scrape asks nothing that the watch has not asked."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from cdc.run.metrics.catalog import METRICS, PIPELINE, PREFIX, Metric, MetricKind
from cdc.run.metrics.samples import MetricSample, list_samples, list_stream_samples
from cdc.run.pipeline import Pipeline
from cdc.run.status.document import Document
from cdc.run.status.stream_report import StreamReport, open_reports
from cdc.run.status.watch import StatusWatch

FRESHNESS: Final = f"{PREFIX}freshness_seconds"


class DocumentCollector(Collector):
    """Collects from `document`, which gives the newest one (None before the first), and from `reports` of streams.

    `by_table`: also what there is one of for each table.
    """

    def __init__(
        self,
        pipeline: str,
        document: Callable[[], Document | None],
        reports: Callable[[], Mapping[str, StreamReport]],
        *,
        by_table: bool = True,
    ) -> None:
        self._pipeline = pipeline
        self._document = document
        self._reports = reports
        self._by_table = by_table

    def collect(self) -> Iterator[Family]:
        """All metrics as they are now."""
        document, reports = self._document(), self._reports()
        found = [*(list_samples(document, time.time()) if document else ()), *list_stream_samples(reports)]
        samples = dict[str, list[MetricSample]]()
        for sample in found:
            samples.setdefault(sample.name, []).append(sample)
        for metric in METRICS:
            if metric.name == FRESHNESS:
                yield self._histogram(metric, reports)
            elif self._by_table or not metric.by_table:
                yield self._family(metric, samples.get(metric.name, ()))

    def _family(self, metric: Metric, samples: Iterable[MetricSample]) -> Family:
        make = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = make(metric.name, metric.meaning, labels=[PIPELINE, *metric.labels])
        for sample in samples:
            family.add_metric([self._pipeline, *sample.labels], sample.value)
        return family

    def _histogram(self, metric: Metric, reports: Mapping[str, StreamReport]) -> Family:
        family = HistogramMetricFamily(metric.name, metric.meaning, labels=[PIPELINE, *metric.labels])
        for follower, report in reports.items():
            buckets = [(bound, float(count)) for bound, count in report.buckets.items()]
            buckets.append(("+Inf", float(report.commits)))
            family.add_metric([self._pipeline, follower], buckets, report.freshness_sum)
        return family


def open_registry(pipeline: Pipeline, watch: StatusWatch) -> CollectorRegistry:
    """A registry with all metrics of a pipeline, as its watch sees it."""
    settings, reports = pipeline.settings, open_reports(pipeline)

    def read() -> dict[str, StreamReport]:
        found = {name: reports.read_stream(name) for name in settings.stream_names}
        return {name: report for name, report in found.items() if report and report.holds(time.time())}

    registry = CollectorRegistry(auto_describe=False)
    registry.register(DocumentCollector(pipeline.name, watch.document, read, by_table=settings.metrics.by_table))
    return registry
