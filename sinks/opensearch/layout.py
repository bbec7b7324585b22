"""Names, mappings and settings of a follower's indexes, and the versions of documents."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from cdc.columns.types.postgres_type import KEYWORD
from cdc.core.errors import PreconditionError
from cdc.core.position import BEFORE_LOG, Bookmark, Position
from cdc.core.table import Table, TableName
from cdc.sinks.owner import Owner

_PLAIN = re.compile(r"[a-z0-9_]{1,60}")
_FOREIGN = re.compile(r"[^a-z0-9_]")
# a name has at most 255 bytes: 100 of the prefix, two parts, and the hash
_HASH_LENGTH, _LONGEST_PART = 16, 60
_COPY = ".copy"
_BASE_BIT = 48
COPY_VERSION = 1 << _BASE_BIT
"""The external version of copied rows, below that of every change.

Above the versions that other writers use: counters, and milliseconds since 1970. On disk in every index.
"""

_RESERVED = frozenset(
    {"_id", "_index", "_source", "_routing", "_field_names", "_ignored", "_nested_path", "_seq_no", "_version"}
    | {"_primary_term", "_doc_count", "_feature", "_data_stream_timestamp"}
)
DEEPEST = 20
"""The depth of nested objects: OpenSearch's default limit (index.mapping.depth.limit)."""
MOST_FIELDS = 5000
"""Of an index: Postgres has at most 1600 columns, each is a field or two, and a dot in a name makes one more."""


@dataclass(frozen=True, slots=True)
class IndexNote:
    """The note in the `_meta` of an index's mapping; without a bookmark its copy is not finished.

    `shape`: the name of what the settings say of this index; empty if they say nothing.
    """

    owner: Owner
    table: Table
    bookmark: Bookmark | None = None
    shape: str = ""

    def as_meta(self) -> dict[str, Any]:
        bookmark = self.bookmark.as_json() if self.bookmark else None
        told = {"table": self.table.as_json(), "bookmark": bookmark, "shape": self.shape}
        return {"cdc": {**self.owner.as_json(), **told}}

    @classmethod
    def from_meta(cls, meta: dict[str, Any] | None) -> Self | None:
        """Read a `_meta`; None if the toolkit did not write it."""
        found = (meta or {}).get("cdc")
        if not found:
            return None
        bookmark = Bookmark.from_json(found["bookmark"]) if found["bookmark"] else None
        owner = Owner(found["pipeline"], found["follower"])
        return cls(owner, Table.from_json(found["table"]), bookmark, found["shape"])


@dataclass(frozen=True, slots=True)
class Searchable:
    """A table as it is in an index, and the name under which that is searched."""

    table: Table
    index: str


def version_at(position: Position) -> int:
    """The external version of writes at a position."""
    # BEFORE_LOG is -1: so the first END, at offset 0, is above the copy
    return COPY_VERSION + position.end_offset - BEFORE_LOG


def is_own_version(version: int) -> bool:
    """Whether a document's version can be one of ours: no END offset reaches the base's bit."""
    return version >> _BASE_BIT == COPY_VERSION >> _BASE_BIT


def index_name(prefix: str, table: TableName) -> str:
    """The unique name of a table's index.

    Names of lower-case letters, digits and `_` stay as they are. In others the other characters become `_`, and a dot
    and a hash of the whole name follow.
    """
    parts = (table.schema, table.table)
    if all(_PLAIN.fullmatch(part) for part in parts):
        return "-".join((prefix, *parts))
    readable = (_FOREIGN.sub("_", part.lower())[:_LONGEST_PART] for part in parts)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_HASH_LENGTH]
    return "-".join((prefix, *readable)) + f".{digest}"


def copy_name(alias: str, number: int) -> str:
    """The index behind the alias: another copy of the table gets a new number.

    No table's name ends like this: there, 16 hex digits follow a dot.
    """
    return f"{alias}{_COPY}{number}"


BESIDE: Final = ".beside"
"""What the name of an index has at its end that is built beside the one that is searched."""
KEPT: Final = ".kept"
"""The same of one that was searched before it was rebuilt. No table's name ends like these, as for copies."""


def copies(alias: str) -> str:
    """The pattern of all copies of an index."""
    return f"{alias}{_COPY}*"


def copy_number(index: str) -> int:
    """The number of a copy; 0 of the alias itself."""
    number = index.rpartition(_COPY)[2]
    return int(number) if _COPY in index and number.isdecimal() else 0


def positions_index(prefix: str) -> str:
    """The index of followers' positions; no table's index has this name, since no hash follows the dot."""
    return f"{prefix}-cdc.positions"


def refusals_index(prefix: str) -> str:
    return f"{prefix}-cdc.refusals"


def trial_index(prefix: str, name: str) -> str:
    """An index that is made to see whether the cluster takes it, and taken away at once."""
    return f"{prefix}-cdc.trial.{name}"


def check_table(table: Table) -> None:
    """Raise PreconditionError for a table that no index can hold."""
    if not table.key:
        raise PreconditionError(
            f"{table.name} has no primary key, and a search index needs one",
            "give it one, name one under source.keys, or the table under leave_out of this follower",
        )
    check_fields(table, table.column_names)


def check_fields(table: Table, names: Sequence[str]) -> None:
    """Raise PreconditionError for names that no index of the table can have."""
    if reason := _unfit_name(names):
        raise PreconditionError(
            f"{table.name}: {reason}", "rename the column, or name the table under leave_out of this follower"
        )


def _unfit_name(names: Sequence[str]) -> str | None:
    """The reason why an index cannot have these fields, or None; OpenSearch (2.19) reads dots as paths."""
    paths: dict[tuple[str, ...], str] = {}
    for name in names:
        parts = name.rstrip(".").split(".")
        if not all(parts):
            return f"OpenSearch takes no field {name}, in which nothing stands between dots"
        if parts[0] in _RESERVED:
            return f"OpenSearch keeps the name {parts[0]} for itself"
        if len(parts) > DEEPEST:
            return f"OpenSearch takes no field {name}, which has more than {DEEPEST - 1} dots"
        path = tuple(parts)
        if path in paths:
            return f"columns {paths[path]} and {name} would be one field in OpenSearch"
        paths[path] = name
    # after all names: a column may stand before the one that it would be a part of
    for path, name in paths.items():
        if above := next((paths[path[:n]] for n in range(1, len(path)) if path[:n] in paths), None):
            return f"column {name} would be a part of column {above} in OpenSearch, to which dots are paths"
    return None


def table_mapping(meta: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Make a strict mapping: OpenSearch refuses unknown fields instead of guessing their types."""
    return {"dynamic": "strict", "_meta": dict(meta), "properties": dict(properties)}


def count_fields(properties: Mapping[str, Any]) -> int:
    """The fields of an index with these, with objects and fields of fields, as OpenSearch counts them."""
    # a dot in a name makes an object
    objects = {name.rpartition(".")[0] for name in properties if "." in name}
    above = {".".join(parts[:n]) for name in objects for parts in [name.split(".")] for n in range(1, len(parts) + 1)}
    return len(above) + sum(_count_below(mapping) + 1 for mapping in properties.values())


def _count_below(mapping: Mapping[str, Any]) -> int:
    below = [*mapping.get("properties", {}).values(), *mapping.get("fields", {}).values()]
    return len(below) + sum(map(_count_below, below))


def table_settings(shards: int, replicas: int, gc_deletes_hours: int) -> dict[str, Any]:
    """Settings of a table's index."""
    return {
        "number_of_shards": shards,
        "number_of_replicas": replicas,
        # a refresh between two requests of a batch would show half of it
        "refresh_interval": "-1",
        # longer than a dead writer lives: a late write has revived a deleted document (seen)
        "gc_deletes": f"{gc_deletes_hours}h",
        # a killed node repeats what it has not flushed: of small rows, a busy one took 70 s for 16 MB, which are 88,000
        # operations. To flush so often costs nothing that was seen in pairs, neither a load nor a stream
        "translog.flush_threshold_size": "4mb",
        "mapping.total_fields.limit": MOST_FIELDS,
    }


_NAME, _OPAQUE = {"type": "keyword"}, {"type": "object", "enabled": False}
_STATE = {"pipeline": _NAME, "follower": _NAME, "position": _OPAQUE, "begun": _OPAQUE, "stopped": _OPAQUE}
_REFUSED = {
    "kept": {"type": "boolean"},
    "table": _NAME,
    "document": KEYWORD,
    "row": KEYWORD,
    "version": {"type": "long"},
    "reason": {"type": "text"},
}
POSITION_MAPPING = {"dynamic": "strict", "properties": _STATE}
REFUSAL_MAPPING = {"dynamic": "strict", "properties": {"pipeline": _NAME, "follower": _NAME, **_REFUSED}}
