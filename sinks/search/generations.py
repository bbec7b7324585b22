"""Generations of a follower's indexes: the searched one, one that is built beside it, and the one searched before.

Each is a `SearchFollower` with a state of its own. Two that stand at one position change places in one request, so that
a search finds all of the one or all of the other (OpenSearch, "Aliases": the actions of a request are one change).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from opensearchpy import OpenSearch

from cdc.core.errors import RefusedError
from cdc.core.position import Position
from cdc.core.table import TableName
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import BESIDE, KEPT, IndexNote, copies
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.owner import Owner
from cdc.sinks.search.indexes import Indexes, TableIndex
from cdc.sinks.search.refusals import KeptRefusals
from cdc.sinks.search.state import SearchState, StateDocument

Found = Mapping[TableName, TableIndex]


@dataclass(frozen=True, slots=True)
class Generations:
    """The generations of one follower; nobody may write to it while they change places or go."""

    indexes: Indexes

    @classmethod
    def of(cls, settings: ClusterSettings, owner: Owner) -> Self:
        return cls(Indexes(Cluster.of(settings), owner, settings.prefix or owner.pipeline, settings))

    def list_tables(self, generation: str) -> list[TableName]:
        """The tables of which there is an index in a generation, whole or not."""
        with open_client(self.indexes.cluster) as client:
            return sorted(self._find(client, generation))

    def find_indexes(self, generation: str) -> Mapping[TableName, str]:
        """The index of each table of a generation."""
        with open_client(self.indexes.cluster) as client:
            return {name: each.index for name, each in self._find(client, generation).items()}

    def measure(self, tables: Iterable[TableName]) -> int:
        """The bytes of what is searched of these tables, with all replicas."""
        only = {"filter_path": "indices.*.total.store.size_in_bytes"}
        with open_client(self.indexes.cluster) as client:
            there = self._find(client, "")
            # by pattern: the names of a thousand tables are too long for one request
            found = client.indices.stats(index=f"{self.indexes.prefix}-*", metric="store", params=only)
        searched = [there[name].index for name in tables if name in there]
        stored = {index: each["total"]["store"]["size_in_bytes"] for index, each in found.get("indices", {}).items()}
        return sum(stored.get(index, 0) for index in searched)

    def count_refused(self, table: TableName) -> int:
        """The rows that are kept aside, since an index of a given shape does not take them."""
        if self.indexes.shape_of(table).is_default:
            return 0
        with open_client(self.indexes.cluster) as client:
            return KeptRefusals(self.indexes.prefix, self.indexes.owner).count(client, table)

    def exchange(self, tables: Sequence[TableName], taken: str, stands_at: Position | None) -> None:
        """Let searches of these tables find those of `taken` from one moment on; what they found is KEPT.

        `taken` has reached what is searched, which `stands_at` this position, and exactly that if other tables stay.
        After a kill between two steps, what is searched is ahead of its position, as after any other: the next batch is
        written again. Raises RefusedError when somebody else has moved it meanwhile.
        """
        with open_client(self.indexes.cluster) as client:
            state, reached = self._document("").read(client), self._document(taken).read(client)
            if state.position != stands_at:
                raise RefusedError(
                    f"another `cdc follow` has moved {self.indexes.owner.follower} meanwhile; nothing was swapped",
                    "run `cdc rebuild` on the machine that follows",
                )
            now, then = self._find(client, ""), self._find(client, taken)
            kept = {name: stop for name, stop in state.stops.items() if name in tables}
            # first: an index that is kept without a position would be nobody's
            self._store(client, KEPT, replace(state, stops=kept))
            client.indices.update_aliases(body={"actions": [*self._list_actions(tables, now, then, taken)]})
            others = {name: stop for name, stop in state.stops.items() if name not in tables}
            self._store(client, "", replace(reached, stops=others))
            if taken == BESIDE:
                self._forget(client, BESIDE)

    def drop(self, generation: str, only: Collection[TableName] | None = None) -> list[TableName]:
        """Delete the indexes of a generation that nobody searches, of `only` these tables; returns their tables.

        With the last one goes its state.
        """
        assert generation
        with open_client(self.indexes.cluster) as client:
            there = self._find(client, generation)
            dropped = {name: each.index for name, each in there.items() if only is None or name in only}
            is_last = len(dropped) == len(there)
            unfinished = self._find_unfinished(client, generation) if is_last else []
            for index in [*dropped.values(), *unfinished]:
                client.indices.delete(index=index, params={"ignore_unavailable": "true"})
            if is_last:
                self._forget(client, generation)
        return sorted(dropped)

    def _list_actions(
        self, tables: Iterable[TableName], now: Found, then: Found, taken: str
    ) -> Iterable[Mapping[str, Any]]:
        for name in tables:
            searched = self.indexes.name_of(name)
            yield {"remove": {"index": then[name].index, "alias": searched + taken}}
            yield {"add": {"index": then[name].index, "alias": searched}}
            if name in now:
                yield {"remove": {"index": now[name].index, "alias": searched}}
                yield {"add": {"index": now[name].index, "alias": searched + KEPT}}

    def _find(self, client: OpenSearch, generation: str) -> Found:
        return replace(self.indexes, generation=generation).of_tables(client)

    def _find_unfinished(self, client: OpenSearch, generation: str) -> list[str]:
        """What a copy has left that was killed: it has no alias yet."""
        only = {"filter_path": "*.mappings._meta,*.aliases", "expand_wildcards": "all"}
        found = client.indices.get(index=copies(f"{self.indexes.prefix}-*{generation}"), params=only)
        notes = {name: IndexNote.from_meta(each["mappings"]["_meta"]) for name, each in found.items()}
        owned = [name for name, note in notes.items() if note and note.owner == self.indexes.owner]
        return [name for name in owned if not found[name].get("aliases")]

    def _document(self, generation: str) -> StateDocument:
        return StateDocument.of(self.indexes.prefix, self.indexes.owner, generation)

    def _store(self, client: OpenSearch, generation: str, state: SearchState) -> None:
        document = self._document(generation)
        # it may have had a later state of another one before
        document.store(client, replace(state, version=max(state.version, document.read(client).version)))

    def _forget(self, client: OpenSearch, generation: str) -> None:
        """Empty the state; deleted, its version would be forgotten, and a late write would count."""
        document = self._document(generation)
        if (version := document.read(client).version) > 0:
            document.store(client, SearchState(version=version + 1))
