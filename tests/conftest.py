"""What tests share: one Spark session a run, and homes for local parts of their own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.local.servers.java import BRIEF
from cdc.local.services import Home, down, wipe
from tests.support.examples import load_profile
from tests.support.further import deselect_further, pytest_addoption, pytest_terminal_summary, pytest_testnodedown
from tests.support.parts.cloud_fixtures import azure_server, google_server
from tests.support.parts.cluster_fixture import cluster
from tests.support.parts.object_store_fixture import s3_server
from tests.support.parts.pipelines import close_opened, left, make_pipeline, make_shared_pipeline, quicker
from tests.support.parts.quick_spark import QUICK
from tests.support.parts.removal import removal
from tests.support.parts.servers_fixture import (
    kafka_bootstrap,
    own_servers,
    pytest_sessionfinish,
    pytest_unconfigure,
    search_url,
    servers,
)
from tests.support.scheduling import order_files, pytest_xdist_make_scheduler

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STORES = {"s3_server", "azure_server", "google_server"}

__all__ = [
    "azure_server",
    "close_opened",
    "cluster",
    "google_server",
    "kafka_bootstrap",
    "left",
    "make_pipeline",
    "make_shared_pipeline",
    "own_servers",
    "pytest_addoption",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "pytest_unconfigure",
    "pytest_xdist_make_scheduler",
    "quicker",
    "removal",
    "s3_server",
    "search_url",
    "servers",
]


USUAL_LIMIT = 900.0
"""Seconds, as in pyproject.toml."""
COLLECTED = ("-XX:+UseSerialGC", "-XX:MetaspaceSize=256m")
"""How every Java of a run collects garbage: in no thread beside those that work, and not for each 20 MB of classes,
which took a session 3 of its first 25 s of processor time."""
LONGEST_NAME = 40
"""Letters of a parameter's name."""
FOLDERS = {
    "spark": ("spark",),
    "contract": ("spark", "servers"),
    "servers": ("spark", "servers"),
    "faults": ("spark", "servers"),
}
"""What every test of a folder may ask for, whatever its fixtures say."""


def pytest_configure(config: pytest.Config) -> None:
    """Every Java of a run is a `brief` one, whoever starts it: parts, Spark, a cluster, verbs; see COLLECTED."""
    load_profile(config)
    given = os.environ.get("JDK_JAVA_OPTIONS", "").split()
    os.environ["JDK_JAVA_OPTIONS"] = " ".join([*given, *(each for each in (*BRIEF, *COLLECTED) if each not in given)])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test by what it asks for, so that `-m "not spark and not servers"` are those that take seconds.

    Files come in the order of `order_files`.
    """
    here = Path(__file__).parent
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        asked = {"spark", "servers"} & fixtures | ({"servers"} if STORES & fixtures else set())
        folder = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
        for need in sorted(asked.union(FOLDERS.get(folder, ()))):
            item.add_marker(need)
    deselect_further(config, items)
    patience = dict[Path, float]()
    for item in items:
        patience[item.path] = max(patience.get(item.path, 0), _patience(item))
    places = {path: place for place, path in enumerate(order_files(patience))}
    items.sort(key=lambda item: places[item.path])


def pytest_make_parametrize_id(val: object) -> str | None:
    """A short name of a parameter that pytest would name by its whole text, or by a number."""
    if isinstance(val, BaseException):
        return type(val).__name__
    if isinstance(val, str | bytes) and len(val) > LONGEST_NAME:
        return ascii(val)[1:LONGEST_NAME]
    if isinstance(val, list | tuple) and all(isinstance(each, str) for each in val):
        return " ".join(val)[:LONGEST_NAME] or "nothing"
    return None


def _patience(item: pytest.Item) -> float:
    """How many seconds a test may take: with servers all that a test has, without them next to none."""
    marker = item.get_closest_marker("timeout")
    usual = USUAL_LIMIT if item.get_closest_marker("servers") else 0.0
    return float(marker.args[0]) if marker else usual


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from cdc.local.fetch.jars import fetch, spark_jars
    from cdc.run.spark.session import SessionOptions, build

    log = tmp_path_factory.mktemp("spark") / "spark.log"
    jars = [str(jar) for jar in (*spark_jars(), *fetch("s3a"))]
    launch = SessionOptions("local[2]", "2g", jars, log)
    session = build("tests", launch, QUICK)
    yield session
    session.stop()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Where a test may start parts of its own; they are stopped and removed at its end."""
    found = Home(tmp_path / ".cdc")
    yield found
    down(found)
    wipe(found)
