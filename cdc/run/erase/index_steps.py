"""The row in OpenSearch: documents, saved searches, notes of refused documents, and what deleted ones leave behind."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from opensearchpy import OpenSearch

from cdc.run.erase.progress import ErasureProgress, read_others
from cdc.run.erase.target import ErasureTarget
from cdc.run.erase.values import Sought
from cdc.run.pipeline import Pipeline
from cdc.sinks.opensearch import expunge
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import refusals_index
from cdc.sinks.opensearch.removal import list_indexes
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.owner import Owner
from cdc.sinks.search.refusals import name_row

SETTINGS: Final = "index_settings"


def expunge_indexes(pipeline: Pipeline, target: ErasureTarget, progress: ErasureProgress) -> int:
    """Merge deleted documents away in all indexes of the pipeline; returns how many there were."""
    count = 0
    for name, settings in _list_clusters(pipeline):
        with _open(settings) as client:
            indexes = _list_indexes(pipeline, client, name, settings)
            _forget_refusals(pipeline, client, name, settings, target)
            count += expunge.count_deleted(client, indexes)
            known: dict[str, Any] = progress.facts.get(SETTINGS, {})
            # once: what a killed run has set is not what was there
            if name not in known:
                progress.note(**{SETTINGS: {**known, name: expunge.read_own(client, indexes)}})
            expunge.expunge(client, indexes)
    return count


def restore_indexes(pipeline: Pipeline, target: ErasureTarget, progress: ErasureProgress) -> None:
    """Set all indexes back, also those of an erasure that was cut off."""
    others = [facts.get(SETTINGS, {}) for facts in read_others(pipeline.state, target.name)]
    for kept in [*others, progress.facts.get(SETTINGS, {})]:
        for name, settings in _list_clusters(pipeline):
            if own := kept.get(name):
                with _open(settings) as client:
                    expunge.set_own(client, own)
    progress.note(**{SETTINGS: {}})


def find_documents(pipeline: Pipeline, sought: Sought) -> dict[str, int]:
    """The documents with one of the values, by index; and deleted ones whose bytes are there, of any row."""
    found = dict[str, int]()
    for name, settings in _list_clusters(pipeline):
        with _open(settings) as client:
            indexes = _list_indexes(pipeline, client, name, settings)
            for index in indexes:
                hits = sum(_count(client, index, text) for text in sought.texts)
                found[f"{name}: {index}"] = hits
            found[f"{name}: deleted documents of any row"] = expunge.count_deleted(client, indexes)
    return found


def _count(client: OpenSearch, index: str, text: str) -> int:
    query = {"multi_match": {"query": text, "type": "phrase", "lenient": True, "fields": ["*"]}}
    return int(client.count(index=index, body={"query": query})["count"])


def _forget_refusals(
    pipeline: Pipeline, client: OpenSearch, name: str, settings: ClusterSettings, target: ErasureTarget
) -> None:
    row = name_row(Owner(pipeline.name, name), target.table.name, [*json.loads(target.document).values()])
    client.delete_by_query(
        index=refusals_index(settings.prefix or pipeline.name),
        body={"query": {"term": {"row": row}}},
        params={"ignore_unavailable": "true", "refresh": "true", "conflicts": "proceed"},
    )


def _list_indexes(pipeline: Pipeline, client: OpenSearch, name: str, settings: ClusterSettings) -> list[str]:
    prefix = settings.prefix or pipeline.name
    own = list_indexes(client, prefix, Owner(pipeline.name, name))
    shared = [refusals_index(prefix)]
    return [*own, *(index for index in shared if client.indices.exists(index=index))]


def _list_clusters(pipeline: Pipeline) -> list[tuple[str, ClusterSettings]]:
    followers = pipeline.settings.followers.items()
    return [(name, settings) for name, settings in followers if isinstance(settings, ClusterSettings)]


@contextmanager
def _open(settings: ClusterSettings) -> Iterator[OpenSearch]:
    with open_client(Cluster.of(settings)) as client:
        yield client
