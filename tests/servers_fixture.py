"""Real servers, one of each a run: the local parts, or those that the environment names."""

import os
from collections.abc import Iterator

import pytest

from cdc.local.parts import Endpoints, Home, Part, down, up, wipe

KAFKA_VARIABLE, SEARCH_VARIABLE = "CDC_TEST_KAFKA", "CDC_TEST_SEARCH"


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a Kafka broker listens."""
    if given := os.environ.get(KAFKA_VARIABLE):
        yield given
        return
    for endpoints in _only(Part.KAFKA, tmp_path_factory):
        yield endpoints.kafka_bootstrap


@pytest.fixture(scope="session")
def search_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where an OpenSearch node answers."""
    if given := os.environ.get(SEARCH_VARIABLE):
        yield given
        return
    for endpoints in _only(Part.SEARCH, tmp_path_factory):
        yield endpoints.search_url


def _only(part: Part, factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    home = Home(factory.mktemp(part))
    try:
        yield up(home, only=[part])
    finally:
        down(home)
        wipe(home)
