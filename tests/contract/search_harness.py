"""The search follower under the contract."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from unittest.mock import patch

from opensearchpy import OpenSearch
from pyspark.sql import SparkSession

from cdc.core.position import Position
from cdc.sinks.search.follower import SearchFollower
from cdc.sinks.search.settings import SearchSettings
from cdc.sinks.search.state import SearchState, StateDocument
from tests.contract.fed_harness import FedHarness
from tests.contract.followers import TABLES, Crash
from tests.contract.memory import ChangesInMemory


@contextmanager
def positions_refused(failure: type[BaseException]) -> Iterator[None]:
    """A writer ends when it stores a position, with everything before written; the marks of batches are stored."""
    store = StateDocument.store

    def store_mark(document: StateDocument, client: OpenSearch, state: SearchState) -> None:
        if state.begun is None:
            raise failure
        store(document, client, state)

    with patch.object(StateDocument, "store", store_mark):
        yield


class SearchHarness(FedHarness):
    def __init__(self, spark: SparkSession, url: str, pipeline: str) -> None:
        super().__init__(spark)
        self._settings = SearchSettings(kind="search", url=url, bulk_documents=3)
        self._pipeline = pipeline
        self.restart()

    def restart(self) -> None:
        self._follower = SearchFollower(self._spark, self._settings, self._pipeline, "search")
        self._follower.prepare(TABLES)

    def crash_in_apply(self, batch: ChangesInMemory, position: Position) -> None:
        with positions_refused(Crash), suppress(Crash):
            self.apply(batch, position)
