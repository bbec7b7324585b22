"""The kinds of queries that can be saved: those of which a match is the same as a hit of a search.

Closed: a kind that is not named here is refused. What is within a query is found by its place, since a column may have
the name of a kind.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

WITHIN: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": ("must", "filter", "should", "must_not"),
    "boosting": ("positive", "negative"),
    "constant_score": ("filter",),
    "dis_max": ("queries",),
    "function_score": ("query",),
    "nested": ("query",),
    "script_score": ("query",),
}
"""Where other queries are in a query of these kinds: one, or a list."""
LEAVES: Final = frozenset(
    {"combined_fields", "distance_feature", "exists", "fuzzy", "geo_bounding_box", "geo_distance", "geo_polygon"}
    | {"geo_shape", "ids", "intervals", "match", "match_all", "match_bool_prefix", "match_none", "match_phrase"}
    | {"match_phrase_prefix", "multi_match", "prefix", "query_string", "range", "regexp", "script"}
    | {"simple_query_string", "span_containing", "span_first", "span_multi", "span_near", "span_not", "span_or"}
    | {"span_term", "span_within", "term", "terms", "terms_set", "wildcard", "xy_shape"}
)
DIFFERENT: Final[Mapping[str, str]] = {
    "more_like_this": "it asks which terms are rare among all rows, and one row does not tell",
    "percolate": "it asks for saved searches",
    "wrapper": "its query is hidden",
}
"""Kinds of which a row alone does not tell what a search would find, each with the reason."""
SCRIPTS: Final = (
    "a script of a saved search runs in OpenSearch by the rights of this follower"
    " (queries.scripts: true in its settings lets scripts in)"
)
Rewrite = Callable[[str, Any], Any]
"""Makes the body of a query from its kind and its body."""


def map_queries(query: Any, rewrite: Rewrite) -> Any:
    """Rewrite the body of a query, and of all within it. What has another form is left to OpenSearch to refuse."""
    if isinstance(query, list):
        return [map_queries(each, rewrite) for each in query]
    if not isinstance(query, dict):
        return query
    return {kind: rewrite(kind, _map_within(kind, body, rewrite)) for kind, body in query.items()}


def _map_within(kind: str, body: Any, rewrite: Rewrite) -> Any:
    if not isinstance(body, dict):
        return body
    inner = {place: map_queries(body[place], rewrite) for place in WITHIN.get(kind, ()) if place in body}
    if kind == "function_score" and isinstance(body.get("functions"), list):
        inner["functions"] = [_map_function(each, rewrite) for each in body["functions"]]
    return {**body, **inner}


def _map_function(function: Any, rewrite: Rewrite) -> Any:
    if not isinstance(function, dict) or "filter" not in function:
        return function
    return {**function, "filter": map_queries(function["filter"], rewrite)}


def check_query(query: Any, *, has_scripts: bool) -> None:
    """Raise ValueError, with the reason, for a query that may match otherwise than a search finds, and for a script."""

    def look(kind: str, body: Any) -> Any:
        if reason := next(_find_reasons(kind, body, has_scripts), None):
            raise ValueError(reason)
        return body

    map_queries(query, look)


def _find_reasons(kind: str, body: Any, has_scripts: bool) -> Iterator[str]:
    if kind in DIFFERENT:
        yield f"a saved search cannot be of the kind {kind}: {DIFFERENT[kind]}"
    elif kind not in WITHIN and kind not in LEAVES:
        yield f"[{kind}] is no kind of query that can be saved"
    if not isinstance(body, dict):
        return
    if "min_score" in body and kind in ("function_score", "script_score"):
        yield f"min_score of {kind}: a score depends on all rows, and one row does not tell"
    if kind == "terms" and any(isinstance(value, dict) for value in body.values()):
        yield "terms that are looked up in another document: a change of it would not be told"
    if kind in ("geo_shape", "xy_shape") and any("indexed_shape" in v for v in body.values() if isinstance(v, dict)):
        yield "a shape that is looked up in another document: a change of it would not be told"
    if not has_scripts and _has_script(kind, body):
        yield SCRIPTS


def _has_script(kind: str, body: Mapping[str, Any]) -> bool:
    match kind:
        case "script" | "script_score":
            return True
        case "function_score":
            functions = body.get("functions")
            places = [body, *(functions if isinstance(functions, list) else ())]
            return any(isinstance(each, dict) and "script_score" in each for each in places)
        case "terms_set":
            return any("minimum_should_match_script" in each for each in body.values() if isinstance(each, dict))
        case "intervals":
            return _has_key(body, "script")
    return False


def _has_key(value: Any, name: str) -> bool:
    if isinstance(value, list):
        return any(_has_key(each, name) for each in value)
    return isinstance(value, dict) and (name in value or any(_has_key(each, name) for each in value.values()))
