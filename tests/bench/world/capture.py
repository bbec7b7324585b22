"""The connector of a pipeline, stopped and started again by Kafka Connect's REST interface."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.bench.world.pipeline import Pipeline
from tests.support.waiting import until

SECONDS = 60.0


def stop(pipeline: Pipeline) -> None:
    """Stop the capture; returns when no task of it is left and nobody reads from the slot."""
    _put(pipeline, "stop")
    until(lambda: not _status(pipeline)["tasks"], "the connector has stopped", SECONDS)
    busy = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active"
    with pipeline.connection() as connection:
        until(lambda: connection.execute(busy, (f"cdc_{pipeline.name}",)).fetchone() == (0,), "the slot is idle")


def resume(pipeline: Pipeline) -> None:
    """Start it again; returns at once."""
    _put(pipeline, "resume")


@contextmanager
def stopped(pipeline: Pipeline) -> Iterator[None]:
    """No capture as long as the context lasts."""
    stop(pipeline)
    try:
        yield
    finally:
        resume(pipeline)


def _put(pipeline: Pipeline, verb: str) -> None:
    httpx.put(f"{_address(pipeline)}/{verb}", timeout=SECONDS).raise_for_status()


def _status(pipeline: Pipeline) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{_address(pipeline)}/status", timeout=SECONDS).raise_for_status().json()
    return found


def _address(pipeline: Pipeline) -> str:
    return f"{pipeline.parts.connect}/connectors/cdc-{pipeline.name}"
