"""Takes deleted documents out of indexes for good: until a merge, their bytes stay in segments and in the translog."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opensearchpy import OpenSearch

from cdc.core.errors import UnreachableError
from cdc.core.waiting import wait_until
from cdc.sinks.opensearch.client import list_names

FOR_A_WHILE: Final[Mapping[str, str]] = {
    # else a merge leaves segments alone of which few documents are deleted
    "index.merge.policy.expunge_deletes_allowed": "0",
}
GONE_SECONDS: Final = 300.0
"""How long to merge again: a merge keeps a delete until the leases of all copies have passed it, which takes 30 s."""
Own = Mapping[str, Mapping[str, str | None]]
"""By index, the settings of its own; None for one that it has not."""


def read_own(client: OpenSearch, indexes: Sequence[str]) -> Own:
    """What these indexes say of the settings that are changed for a while."""
    own = dict[str, dict[str, str | None]]()
    for names in list_names(indexes):
        found = client.indices.get_settings(index=names, params={"flat_settings": "true"})
        own |= {index: {name: each["settings"].get(name) for name in FOR_A_WHILE} for index, each in found.items()}
    return own


def set_own(client: OpenSearch, own: Own) -> None:
    """Set these settings; those that are None go."""
    for index, settings in own.items():
        client.indices.put_settings(index=index, body=dict(settings), params={"ignore_unavailable": "true"})


def expunge(client: OpenSearch, indexes: Sequence[str]) -> None:
    """Merge away all deleted documents; `FOR_A_WHILE` has to be set.

    Raises UnreachableError when some stay, since a copy of a shard is away, say.
    """
    set_own(client, dict.fromkeys(indexes, FOR_A_WHILE))
    if not wait_until(lambda: _expunge_once(client, indexes), GONE_SECONDS, 1.0):
        raise UnreachableError(
            f"{', '.join(indexes)}: deleted documents stay", "is every shard assigned? then `cdc erase` again"
        )


def count_deleted(client: OpenSearch, indexes: Sequence[str]) -> int:
    """Deleted documents whose bytes are there."""
    found: list[Mapping[str, Any]] = []
    for names in list_names(indexes):
        found += client.cat.segments(index=names, params={"format": "json", "h": "docs.deleted"})
    return sum(int(segment["docs.deleted"]) for segment in found)


def _expunge_once(client: OpenSearch, indexes: Sequence[str]) -> bool:
    for names in list_names(indexes):
        client.indices.refresh(index=names)
        # before the merge: it keeps what the last commit does not know yet; after it: so that old segments go
        client.indices.flush(index=names, params={"force": "true"})
        client.indices.forcemerge(index=names, params={"only_expunge_deletes": "true"})
        client.indices.flush(index=names, params={"force": "true"})
        client.indices.refresh(index=names)
    return count_deleted(client, indexes) == 0
