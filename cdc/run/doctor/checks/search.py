"""OpenSearch clusters, and the indexes of the followers in them."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

from cdc.core.text.plural import format_count
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.checks.source import is_local
from cdc.run.doctor.facts.search import IndexState, SearchFacts
from cdc.run.doctor.parts import AskedParts
from cdc.sinks.opensearch import layout
from cdc.sinks.opensearch.layout import IndexNote
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.search.table_shapes import shape_of

_OLDEST: Final = {"opensearch": 2, "elasticsearch": 8}
_FULL_PERCENT: Final = 85.0
_BLOCKS: Final = ("read_only", "read_only_allow_delete", "read", "write", "metadata")

Told = Iterator[tuple[str, SearchFacts, ClusterSettings]]


def _clusters(parts: AskedParts) -> Told:
    """Each follower with its cluster, and its settings."""
    for name, settings in parts.clusters.items():
        yield name, parts.search(name), settings


def _indexes(parts: AskedParts) -> Iterator[tuple[str, str, IndexState, IndexNote, ClusterSettings]]:
    """Each index of a table that a follower keeps: follower, index, state, note, settings."""
    for name, facts, settings in _clusters(parts):
        for index, state in facts.indexes.items():
            note = IndexNote.from_meta(state.mapping.get("_meta"))
            if note and note.owner.pipeline == parts.settings.pipeline.name and note.owner.follower == name:
                yield name, index, state, note, settings


def _put(index: str, body: str) -> str:
    return f"PUT /{index}/_settings {body}"


@check("search.answers", Severity.ERROR, "its follower waits for it")
def find_clusters(parts: AskedParts) -> Iterator[Fault]:
    """Each cluster answers, and lets us in."""
    for name in parts.clusters:
        _ = parts.search(name)
    yield from ()


@check("search.product", Severity.ERROR, "other products answer otherwise to what we ask")
def find_other_products(parts: AskedParts) -> Iterator[Fault]:
    """It is OpenSearch 2 or newer, or Elasticsearch 8 or newer."""
    for name, facts, _ in _clusters(parts):
        if int(facts.version.partition(".")[0]) < _OLDEST.get(facts.distribution, math.inf):
            what = f"follower {name} has a cluster of {facts.distribution} {facts.version}"
            yield Fault(name, what, "name the url of an OpenSearch 2, or an Elasticsearch 8, or newer")


@check("search.plaintext", Severity.WARNING, "the password, and every document, can be read on their way")
def find_plaintext(parts: AskedParts) -> Iterator[Fault]:
    """A connection with another machine is encrypted."""
    for name, settings in parts.clusters.items():
        url = urlsplit(settings.url)
        if url.scheme == "http" and not is_local(url.hostname or ""):
            yield Fault(name, f"follower {name} writes to {url.hostname} in clear", "name an https:// url")


@check("search.health", Severity.WARNING, "an index that lacks a primary shard takes no writes")
def find_red(parts: AskedParts) -> Iterator[Fault]:
    """No cluster is red."""
    for name, facts, _ in _clusters(parts):
        if facts.health == "red":
            yield Fault(name, f"the cluster of follower {name} is red", "see GET /_cluster/allocation/explain")


@check("search.disk", Severity.WARNING, "above its watermarks a cluster makes no shards, then takes no writes")
def find_full_disks(parts: AskedParts) -> Iterator[Fault]:
    """No node's disk is above the low watermark."""
    for name, facts, _ in _clusters(parts):
        mark = _to_percent(facts.low_watermark)
        for node, used in facts.disks.items():
            if used >= mark:
                what = f"node {node} of follower {name} has used {used:.0f} % of its disk, above {mark:.0f} %"
                yield Fault(node, what, "make room there")


@check("search.shards", Severity.ERROR, "the cluster would refuse a new index")
def find_few_shards(parts: AskedParts) -> Iterator[Fault]:
    """There is room for the shards of every table that has no index yet."""
    for name, facts, settings in _clusters(parts):
        held = {note.table.name for follower, _, _, note, _ in _indexes(parts) if follower == name}
        missing = sum(parts.settings.holds(name, table) and table not in held for table in parts.names)
        needed = missing * settings.shards * (1 + settings.replicas)
        if facts.shards + needed > facts.most_shards:
            there = f"{facts.shards} of {facts.most_shards} shards"
            what = f"the cluster of follower {name} has {there}, and needs {needed} more"
            yield Fault(name, what, "raise cluster.max_shards_per_node, or delete indexes")


@check("search.request_size", Severity.ERROR, "a bulk request of that size is refused (413)")
def find_small_requests(parts: AskedParts) -> Iterator[Fault]:
    """A node takes requests of `bulk_bytes`."""
    for name, facts, settings in _clusters(parts):
        if 0 < facts.request_bytes < settings.bulk_bytes:
            takes = f"a node of follower {name} takes requests of {facts.request_bytes:,} bytes"
            what = f"{takes}, and bulk_bytes is {settings.bulk_bytes:,}"
            yield Fault(name, what, "lower bulk_bytes, or raise http.max_content_length")


@check("search.fields", Severity.ERROR, "the cluster refuses the mapping, and the table stops", at_bootstrap=False)
def find_too_many_fields(parts: AskedParts) -> Iterator[Fault]:
    """An index takes as many fields as its table has columns, with what is in them."""
    limits = {(name, note.table.name): (index, state) for name, index, state, note, _ in _indexes(parts)}
    for name, _, settings in _clusters(parts):
        for table in parts.tables.tables:
            index, state = limits.get((name, table.name), (str(table.name), None))
            most = int(state.settings.get("mapping", {}).get("total_fields", {}).get("limit", 1000)) if state else 0
            most = most or layout.MOST_FIELDS
            fields = shape_of(settings, table.name).mapping_of(table) if parts.settings.holds_table(name, table) else {}
            needed = layout.count_fields(fields)
            if needed > most:
                raised = _put(index, f'{{"index.mapping.total_fields.limit": {2 * needed}}}')
                remedy = raised if state else f"name {table.name} under leave_out of follower {name}"
                yield Fault(index, f"{table.name} needs {needed:,} fields in {name}, and {most:,} are the most", remedy)


@check("search.ours", Severity.ERROR, "the follower would write into what belongs to somebody else", at_bootstrap=False)
def find_foreign(parts: AskedParts) -> Iterator[Fault]:
    """An index or alias of a table's name is this follower's."""
    for name, facts, settings in _clusters(parts):
        own = {index for follower, index, *_ in _indexes(parts) if follower == name}
        for table in parts.names:
            alias = layout.index_name(settings.prefix, table)
            taken = [
                index for index, state in facts.indexes.items() if alias in (index, *state.aliases) and index not in own
            ]
            if parts.settings.holds(name, table) and taken:
                what = f"{table}: index {taken[0]} is there already and is not follower {name}'s"
                yield Fault(taken[0], what, "choose another prefix, or delete it")


@check("search.alias", Severity.ERROR, "a search would find rows twice, and a write is refused", at_bootstrap=False)
def find_shared_aliases(parts: AskedParts) -> Iterator[Fault]:
    """The alias of a table leads to one index."""
    for name, facts, settings in _clusters(parts):
        for table in parts.names:
            alias = layout.index_name(settings.prefix, table)
            behind = sorted(index for index, state in facts.indexes.items() if alias in state.aliases)
            if len(behind) > 1:
                what = f"alias {alias} of follower {name} leads to {', '.join(behind)}"
                yield Fault(
                    alias, what, f"take it from all but one: POST /_aliases, remove index {behind[0]} alias {alias}"
                )


@check("search.open", Severity.ERROR, "its follower does not go on", at_bootstrap=False)
def find_closed(parts: AskedParts) -> Iterator[Fault]:
    """No index of a table is closed."""
    for _, index, state, _, _ in _indexes(parts):
        if state.is_closed:
            yield Fault(index, f"index {index} is closed", f"open it: POST /{index}/_open")


@check("search.blocks", Severity.ERROR, "its follower does not go on", at_bootstrap=False)
def find_blocked(parts: AskedParts) -> Iterator[Fault]:
    """No index of a table is blocked."""
    for _, index, state, _, _ in _indexes(parts):
        blocks = state.settings.get("blocks", {})
        for block in _BLOCKS:
            if str(blocks.get(block)).lower() == "true":
                lift = _put(index, f'{{"index.blocks.{block}": null}}')
                yield Fault(index, f"index {index} is blocked: index.blocks.{block}", f"lift the block: {lift}")


@check(
    "search.mapping", Severity.ERROR, "documents are refused, or their fields are something else", at_bootstrap=False
)
def find_changed_mappings(parts: AskedParts) -> Iterator[Fault]:
    """The fields of an index are those of its table, and no other."""
    for _, index, state, note, settings in _indexes(parts):
        shape, fields = shape_of(settings, note.table.name), state.mapping.get("properties", {})
        # one of another shape is filled anew
        if note.shape != shape.name:
            continue
        wanted = layout.table_mapping(note.as_meta(), shape.mapping_of(note.table))
        others = [
            field
            for field in {**fields, **wanted["properties"]}
            if _type_at(fields, field) != _type_at(wanted["properties"], field)
        ]
        # a dot in a column's name makes an object of fields
        others = [
            field
            for field in others
            if "." not in field and not any(name.startswith(f"{field}.") for name in wanted["properties"])
        ]
        if others or state.mapping.get("dynamic") != "strict":
            what = f"index {index} has other fields than {note.table.name}: {', '.join(others) or 'dynamic ones'}"
            yield Fault(index, what, f"`cdc bootstrap` fills it again once it is gone: DELETE /{index}")


@check("search.refused", Severity.WARNING, "searches do not find these rows", at_bootstrap=False)
def find_refused(parts: AskedParts) -> Iterator[Fault]:
    """An index that `indexes` describes takes every row."""
    for name, facts, settings in _clusters(parts):
        if facts.refused:
            index = layout.refusals_index(settings.prefix)
            what = f"indexes of follower {name} have refused {format_count(facts.refused, 'row')}"
            yield Fault(index, what, f"see GET /{index}/_search?q=kept:true; change the rows, or `indexes`")


@check(
    "search.deletes", Severity.WARNING, "a late write of a writer that lost its lease brings a deleted document back"
)
def find_short_memory(parts: AskedParts) -> Iterator[Fault]:
    """`index.gc_deletes` is as `deletes_remembered_hours` says."""
    return _find_other_setting(parts, "gc_deletes", lambda settings: f"{settings.deletes_remembered_hours}h")


@check("search.refresh", Severity.WARNING, "searches see half of a transaction")
def find_refreshes(parts: AskedParts) -> Iterator[Fault]:
    """No index refreshes by itself."""
    return _find_other_setting(parts, "refresh_interval", lambda _: "-1")


def _find_other_setting(parts: AskedParts, name: str, value_of: Callable[[ClusterSettings], str]) -> Iterator[Fault]:
    for _, index, state, _, settings in _indexes(parts):
        value = value_of(settings)
        if (found := state.settings.get(name)) != value:
            put = _put(index, f'{{"index.{name}": "{value}"}}')
            yield Fault(index, f"index {index} has {name}={found}, not {value}", put)


def _type_at(fields: object, name: str) -> object:
    found = fields.get(name) if isinstance(fields, dict) else None
    return found.get("type", "object") if isinstance(found, dict) else None


def _to_percent(mark: str) -> float:
    found = re.fullmatch(r"([0-9.]+)%", mark)
    return float(found[1]) if found else _FULL_PERCENT
