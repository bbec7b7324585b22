"""What an OpenSearch cluster says of itself and of a follower's indexes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import refusals_index
from cdc.sinks.opensearch.settings import ClusterSettings

_INDEX: Final = "*.mappings,*.aliases,*.settings.index"
_KEPT: Final = {"query": {"term": {"kept": True}}}
_IF_THERE: Final = {"ignore_unavailable": "true"}


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index: its aliases, mapping and settings; `is_closed`."""

    aliases: frozenset[str]
    mapping: Mapping[str, Any]
    settings: Mapping[str, Any]
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class SearchFacts:
    """`disks`: percent used by node. `shards`, `most_shards`: in use, and as many as the cluster takes. `refused`: rows
    that an index of a given shape lacks.
    """

    distribution: str
    version: str
    health: str
    indexes: Mapping[str, IndexState] = field(default_factory=dict)
    disks: Mapping[str, float] = field(default_factory=dict)
    low_watermark: str = ""
    shards: int = 0
    most_shards: int = 0
    request_bytes: int = 0
    refused: int = 0


def read_search(settings: ClusterSettings, seconds: float) -> SearchFacts:
    """Ask the cluster, with so many seconds for each request. Raises CdcError."""
    with open_client(Cluster.of(settings)) as client:
        patient: Mapping[str, Any] = {"request_timeout": seconds}
        version = client.info(**patient)["version"]
        health = client.cluster.health(**patient)
        flat = {"include_defaults": "true", "flat_settings": "true", "filter_path": _SETTINGS}
        settings_now = _flatten(client.cluster.get_settings(params=flat, **patient))
        http = client.nodes.info(metric="http", params={"filter_path": "nodes.*.http"}, **patient)
        found = client.indices.get(
            index=f"{settings.prefix}-*", params={"filter_path": _INDEX, "expand_wildcards": "all"}, **patient
        )
        states = client.cat.indices(
            index=f"{settings.prefix}-*",
            params={"format": "json", "h": "index,status", "expand_wildcards": "all"},
            **patient,
        )
        closed = {row["index"] for row in states if row.get("status") == "close"}
        disks = client.cat.allocation(params={"format": "json", "h": "node,disk.percent"}, **patient)
        nodes = int(health["number_of_data_nodes"])
        return SearchFacts(
            version.get("distribution", "elasticsearch"),
            version["number"],
            health["status"],
            {name: _to_state(each, is_closed=name in closed) for name, each in found.items()},
            {row["node"]: float(row["disk.percent"]) for row in disks if row.get("disk.percent")},
            str(settings_now.get(_WATERMARK, "")),
            int(health["active_shards"]),
            nodes * int(settings_now.get(_MOST_SHARDS, 1000)),
            _smallest_request(http),
            int(client.count(index=refusals_index(settings.prefix), body=_KEPT, params=_IF_THERE, **patient)["count"]),
        )


_WATERMARK: Final = "cluster.routing.allocation.disk.watermark.low"
_MOST_SHARDS: Final = "cluster.max_shards_per_node"
_SETTINGS: Final = ",".join(f"*.{name}" for name in (_WATERMARK, _MOST_SHARDS))


def _flatten(answer: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The settings that hold: a transient one before a persistent one before the default."""
    return {**answer.get("defaults", {}), **answer.get("persistent", {}), **answer.get("transient", {})}


def _to_state(found: Mapping[str, Any], *, is_closed: bool) -> IndexState:
    settings = found.get("settings", {}).get("index", {})
    return IndexState(frozenset(found.get("aliases", ())), found.get("mappings", {}), settings, is_closed)


def _smallest_request(http: Mapping[str, Any]) -> int:
    sizes: Sequence[int] = [node["http"]["max_content_length_in_bytes"] for node in http.get("nodes", {}).values()]
    return min(sizes, default=0)
