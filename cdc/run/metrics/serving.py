"""Serves metrics over HTTP: as a server of its own on loopback, or as a piece of another one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from prometheus_client import CollectorRegistry, make_asgi_app, start_http_server

from cdc.core.errors import PreconditionError
from cdc.run.metrics.collection import open_registry
from cdc.run.metrics.otlp import send_metrics
from cdc.run.pipeline import Pipeline
from cdc.run.status.watch import StatusWatch

LOOPBACK: Final = "127.0.0.1"


def metrics_app(registry: CollectorRegistry) -> Callable[..., Any]:
    """An ASGI application that answers with the metrics, to be mounted as /metrics."""
    app: Callable[..., Any] = make_asgi_app(registry)
    return app


@contextmanager
def serve_metrics(registry: CollectorRegistry, port: int) -> Iterator[int]:
    """Serve metrics on loopback as long as the context lasts; gives the port, a free one where 0 was asked for.

    Raises PreconditionError when the port is taken.
    """
    try:
        server, thread = start_http_server(port, LOOPBACK, registry)
    except OSError as error:
        raise PreconditionError(
            f"port {port} of {LOOPBACK} cannot be served: {error.strerror}", "name another"
        ) from None
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def watch_and_tell(pipeline: Pipeline, port: int | None, say: Callable[[str], None]) -> Iterator[None]:
    """Watch the pipeline beside what the context does, serve its metrics where a port is given, and send them by OTLP
    where the settings say so. Without either, does nothing."""
    otlp = pipeline.settings.metrics.otlp
    if port is None and otlp is None:
        yield
        return
    own = pipeline.reopened()
    with StatusWatch(own) as watch:
        registry = open_registry(own, watch)
        with send_metrics(registry, otlp, say):
            if port is None:
                yield
                return
            with serve_metrics(registry, port) as served:
                say(f"metrics: http://{LOOPBACK}:{served}/metrics")
                yield
