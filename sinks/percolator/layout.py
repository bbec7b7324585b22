"""Names, mappings and notes of the percolator indexes, and the follower's topics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from cdc.columns.types.registry import type_of
from cdc.core.errors import PreconditionError
from cdc.core.table import Kind, Table, TableName
from cdc.log.clients.topics import Topic, compaction_config
from cdc.log.settings import LogSettings
from cdc.sinks.opensearch import layout as indexes
from cdc.sinks.opensearch.layout import index_name
from cdc.sinks.owner import Owner
from cdc.sinks.percolator.settings import PercolatorSettings

QUERY_KINDS = (Kind.TEXT, Kind.JSON)
_SUFFIX = ".queries"
_META = "cdc_queries"
_HOUR_MS = 3600 * 1000


@dataclass(frozen=True, slots=True)
class OwnFields:
    """The fields of a percolator index beside its table's columns: the query, and the key of the query's row."""

    query: str
    key: str

    @classmethod
    def beside(cls, table: Table) -> Self:
        """Choose names that no column has; OpenSearch reads dots as paths, so the first part counts."""
        taken, start = {name.split(".")[0] for name in table.column_names}, "_cdc"
        while {f"{start}_query", f"{start}_key"} & taken:
            start = f"_{start}"
        return cls(f"{start}_query", f"{start}_key")


@dataclass(frozen=True, slots=True)
class PercolatorNote:
    """The note in the `_meta` of a percolator index: whose it is, and its table; `is_whole` when it has every query."""

    owner: Owner
    table: Table
    is_whole: bool

    def as_meta(self) -> dict[str, Any]:
        return {_META: {**self.owner.as_json(), "table": self.table.as_json(), "is_whole": self.is_whole}}

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any] | None) -> Self | None:
        """Read a `_meta`; None if it is of another index."""
        found = (meta or {}).get(_META)
        if not found:
            return None
        return cls(Owner(found["pipeline"], found["follower"]), Table.from_json(found["table"]), found["is_whole"])


def percolator_index(prefix: str, table: TableName) -> str:
    """The index of the queries that match a table's rows.

    No table's index ends like this, since 16 hex digits follow a dot there.
    """
    return f"{index_name(prefix, table)}{_SUFFIX}"


def percolator_indexes(prefix: str) -> str:
    """The pattern of all percolator indexes of a prefix."""
    return f"{prefix}-*{_SUFFIX}"


def percolator_body(note: PercolatorNote, settings: PercolatorSettings) -> dict[str, Any]:
    """The definition of a percolator index: a row is read in it exactly as in the index of rows."""
    own = OwnFields.beside(note.table)
    properties = {column.name: type_of(column).index for column in note.table.columns}
    properties |= {own.query: {"type": "percolator"}, own.key: {"type": "keyword"}}
    mapping = {"dynamic": "strict", "_meta": note.as_meta(), "properties": properties}
    s = settings
    table_settings = indexes.table_settings(s.shards, s.replicas, s.deletes_remembered_hours)
    return {"mappings": mapping, "settings": {"index": table_settings}}


def check_table(table: Table, settings: PercolatorSettings) -> None:
    """Raise PreconditionError for a table whose rows no index can hold, or that has no queries in the column named."""
    indexes.check_table(table)
    if table.name == TableName.parse(settings.queries.table):
        check_queries(table, settings.queries.column)


def check_queries(table: Table, column: str) -> None:
    kind = next((each.kind for each in table.columns if each.name == column and not each.array), None)
    if kind not in QUERY_KINDS:
        raise PreconditionError(
            f"{table.name} has no column {column} of type text, json or jsonb, which its queries should be in",
            "name another one under queries.column of this follower",
        )


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of one follower.

    `events` has the matches and ends of matches for a while, `present` the matches that there are (compacted), and
    `position` what these belong to.
    """

    events: Topic
    present: Topic
    position: Topic

    @classmethod
    def of(cls, log: LogSettings, settings: PercolatorSettings, follower: str) -> Self:
        events, present, position = settings.topic_names(log.prefix, follower)
        replicas, compaction = log.replication_factor, compaction_config(log)
        kept = {"cleanup.policy": "delete", "retention.ms": str(log.retention_hours * _HOUR_MS)}
        return cls(
            Topic(events, log.partitions, replicas, kept),
            Topic(present, log.partitions, replicas, compaction),
            Topic(position, 1, replicas, compaction),
        )
