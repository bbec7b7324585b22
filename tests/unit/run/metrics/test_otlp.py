"""What is sent by OTLP is what a scrape sees, taken by a receiver over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from cdc.config.metrics_settings import MetricsSettings
from cdc.run.metrics import otlp
from cdc.run.metrics.otlp import send_metrics
from tests.support.parts.ports import free_port
from tests.support.waiting import until
from tests.unit.run.metrics.test_metrics import registry


class Receiver:
    """A collector of OpenTelemetry, as far as it takes metrics."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, ExportMetricsServiceRequest]] = []
        self.status = 200


@contextmanager
def receiving(port: int) -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.taken.append((self.path, ExportMetricsServiceRequest.FromString(body)))
            self.send_response(receiver.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_same_metrics_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "EVERY_SECONDS", 0.05)
    port, said = free_port(), list[str]()
    with receiving(port) as receiver, send_metrics(registry(), f"http://127.0.0.1:{port}", said.append):
        until(lambda: bool(receiver.taken), "metrics come")
    path, request = receiver.taken[0]
    assert path == "/v1/metrics"
    [of_resource] = request.resource_metrics
    [scope] = of_resource.scope_metrics
    metrics = {metric.name: metric for metric in scope.metrics}
    [slot] = metrics["cdc_slot_retained_bytes"].gauge.data_points
    assert (slot.as_double, slot.attributes[0].value.string_value) == (1000.0, "shop")
    assert metrics["cdc_slot_retained_bytes"].unit == "By"
    [batches] = metrics["cdc_follower_batches"].sum.data_points
    assert (batches.as_double, metrics["cdc_follower_batches"].sum.is_monotonic) == (4.0, True)
    [fresh] = metrics["cdc_freshness_seconds"].histogram.data_points
    assert (fresh.count, fresh.sum, list(fresh.bucket_counts)) == (4, 8.0, [3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    assert said == []


def test_a_collector_that_is_down_is_told_once_and_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr(otlp, "TIMEOUT_SECONDS", 0.2)
    port, said = free_port(), list[str]()
    with send_metrics(registry(), f"http://127.0.0.1:{port}/v1/metrics", said.append):
        until(lambda: bool(said), "it says that nobody takes them")
        with receiving(port) as receiver:
            until(lambda: len(said) > 1, "it says that they are taken again")
    assert said[:2] == [
        f"metrics: http://127.0.0.1:{port}/v1/metrics does not take them; tried again",
        f"metrics: http://127.0.0.1:{port}/v1/metrics takes them again",
    ]
    assert receiver.taken


def test_without_a_url_nothing_is_sent() -> None:
    with send_metrics(registry(), None, lambda _: None):
        assert not [thread for thread in threading.enumerate() if thread.name == "otlp"]


@pytest.mark.parametrize("url", ["collector:4318", "http://me:secret@collector", "http://a b"])
def test_what_is_no_url_or_has_a_password_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="otlp"):
        MetricsSettings(otlp=url)
