"""Names the fields of queries that name none, as a search of the rows would: a percolator index does not.

Of `query_string` and the like without fields, or with a pattern, OpenSearch searches all fields of the index. In a
percolator index it looks for a field of the name `*` instead, and refuses the query.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from cdc.columns.types.registry import type_of
from cdc.core.table import Table
from cdc.sinks.percolator.kinds import map_queries

WITH_FIELDS: Final = frozenset({"combined_fields", "multi_match", "query_string", "simple_query_string"})
OF_ALL: Final = frozenset({"multi_match", "query_string", "simple_query_string"})
"""Kinds that search all fields if none is named."""
ALL: Final = "*"


def searched_fields(table: Table) -> list[str]:
    """The fields of a table's index that a query of all fields searches."""
    return [name for column in table.columns for name in _leaves(column.name, type_of(column).index)]


def _leaves(name: str, mapping: Mapping[str, Any]) -> Iterator[str]:
    # a list of structs has documents of its own, which only a nested query searches
    if mapping["type"] == "object":
        for inner, each in mapping.get("properties", {}).items():
            yield from _leaves(f"{name}.{inner}", each)
    elif mapping["type"] not in ("binary", "nested"):
        yield name
        yield from (f"{name}.{inner}" for inner in mapping.get("fields", ()))


def name_fields(text: str, fields: Sequence[str]) -> str:
    """The query with the names of all fields that it asks by none or by a pattern; the same text if there are none."""
    query = json.loads(text)

    def rewrite(kind: str, body: Any) -> Any:
        return _named(kind, body, fields) if kind in WITH_FIELDS and isinstance(body, dict) else body

    named = map_queries(query, rewrite)
    return text if named == query else json.dumps(named, ensure_ascii=False, separators=(",", ":"))


def _named(kind: str, body: Mapping[str, Any], fields: Sequence[str]) -> Mapping[str, Any]:
    asked = body.get("fields", body.get("default_field", ALL if kind in OF_ALL else None))
    patterns = [asked] if isinstance(asked, str) else asked
    if patterns == []:
        patterns = [ALL]
    if not isinstance(patterns, list) or not any(isinstance(each, str) and ALL in each for each in patterns):
        return body
    found = dict.fromkeys(name for each in patterns for name in _expand(each, fields))
    # as a search does: a word is no reason to refuse the query, where some of all fields are numbers
    lenient = {"lenient": True} if len(patterns) == 1 and patterns[0].partition("^")[0] == ALL else {}
    return {**lenient, **{name: each for name, each in body.items() if name != "default_field"}, "fields": [*found]}


def _expand(pattern: Any, fields: Sequence[str]) -> Iterator[Any]:
    if not isinstance(pattern, str) or ALL not in pattern:
        yield pattern
        return
    name, caret, boost = pattern.partition("^")
    # only the star is special to OpenSearch
    shape = name.replace("[", "[[]").replace("?", "[?]")
    found = [each for each in fields if fnmatchcase(each, shape)]
    yield from (f"{each}{caret}{boost}" for each in found or [name])
