"""What differs between OpenSearch and Elasticsearch: requests are such as both take, but for fields of these types."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from opensearchpy import OpenSearch

_COUNTERPARTS: Final = {
    "knn_vector": "dense_vector",
    "flat_object": "flattened",
    "xy_point": "point",
    "xy_shape": "shape",
}
"""OpenSearch's types, and what Elasticsearch has for the same."""
OPENSEARCH: Final = "OpenSearch"
ELASTICSEARCH: Final = "Elasticsearch"
_VECTORS: Final = {OPENSEARCH: {"knn_vector"}, ELASTICSEARCH: {"dense_vector", "sparse_vector", "rank_vectors"}}
_WITHOUT_VECTORS: Final = {OPENSEARCH: (3, 0), ELASTICSEARCH: (9, 2)}
"""From which versions on a document is kept without fields of these types, unless an index says otherwise."""


@dataclass(frozen=True, slots=True)
class Product:
    """What a cluster says that it is."""

    name: str
    version: tuple[int, int]

    @classmethod
    def ask(cls, client: OpenSearch) -> Self:
        version = client.info()["version"]
        name = OPENSEARCH if version.get("distribution") == "opensearch" else ELASTICSEARCH
        major, minor = str(version["number"]).split(".")[:2]
        return cls(name, (int(major), int(minor)))

    def find_foreign(self, types: Iterable[str]) -> str | None:
        """What is wrong with a type that only the other product has; None if there is none such."""
        own = _COUNTERPARTS if self.name == OPENSEARCH else {theirs: ours for ours, theirs in _COUNTERPARTS.items()}
        foreign = {theirs: ours for ours, theirs in own.items()}
        found = next((each for each in types if each in foreign), None)
        return found and f"{self.name} has no type {found}: name it {foreign[found]}, with what that takes"

    def settings_for(self, types: Iterable[str]) -> Mapping[str, Any]:
        """The settings that keep a document as it was written: verification reads it."""
        if not _VECTORS[self.name] & {*types} or self.version < _WITHOUT_VECTORS[self.name]:
            return {}
        if self.name == OPENSEARCH:
            return {"knn.derived_source.enabled": False}
        return {"mapping.exclude_source_vectors": False}
