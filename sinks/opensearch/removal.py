"""Takes away the indexes of one follower, and what it has in those that followers share."""

from typing import Any

from opensearchpy import OpenSearch

from cdc.sinks.opensearch.layout import positions_index, refusals_index
from cdc.sinks.owner import Owner


def list_indexes(client: OpenSearch, prefix: str, owner: Owner) -> list[str]:
    """The indexes below the prefix whose note says that they are this follower's, closed ones included."""
    only = {"filter_path": "*.mappings._meta", "expand_wildcards": "all"}
    found = client.indices.get(index=f"{prefix}-*", params=only)
    return sorted(name for name, index in found.items() if _is_owned(index, owner))


def has_state(client: OpenSearch, prefix: str, owner: Owner) -> bool:
    """Does the index of positions have this follower's?"""
    answer = client.count(
        index=positions_index(prefix), body={"query": _of(owner)}, params={"ignore_unavailable": "true"}
    )
    return bool(answer["count"])


def remove_indexes(client: OpenSearch, prefix: str, owner: Owner, names: list[str]) -> None:
    """Delete these indexes and the follower's positions and refusals; also their indexes, once nobody has any."""
    for name in names:
        client.indices.delete(index=name, params={"ignore_unavailable": "true"})
    own = [positions_index(prefix), refusals_index(prefix)]
    shared = {"ignore_unavailable": "true", "refresh": "true", "conflicts": "proceed"}
    client.delete_by_query(index=",".join(own), body={"query": _of(owner)}, params=shared)
    left = client.count(index=",".join(own), params={"ignore_unavailable": "true"})
    if not left["count"]:
        for name in own:
            client.indices.delete(index=name, params={"ignore_unavailable": "true"})


def _is_owned(index: dict[str, Any], owner: Owner) -> bool:
    notes = index.get("mappings", {}).get("_meta", {}).values()
    return any(isinstance(note, dict) and owner.as_json().items() <= note.items() for note in notes)


def _of(owner: Owner) -> dict[str, Any]:
    return {"bool": {"filter": [{"term": {name: value}} for name, value in owner.as_json().items()]}}
