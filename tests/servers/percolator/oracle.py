"""Queries as OpenSearch has them, at random, and which rows they match by a small evaluator of our own."""

import json
import random
from collections.abc import Mapping
from typing import Any

from tests.support.model import Row

WORDS = ("red", "green", "blue", "bicycle", "boat", "house", "large", "small")
CITIES = ("Kiel", "Bonn", "Ulm")
Query = Mapping[str, Any]


def random_query(random: random.Random, depth: int = 2) -> Query:
    match random.choice(["term", "number", "range", "match", "exists", *(["bool"] * 3 if depth else [])]):
        case "term":
            return {"term": {"city.keyword": random.choice(CITIES)}}
        case "number":
            return {"term": {"price": random.randrange(10)}}
        case "range":
            bound = random.choice(["gt", "gte", "lt", "lte"])
            return {"range": {"price": {bound: random.randrange(10)}}}
        case "match":
            return {"match": {"title": " ".join(random.choices(WORDS, k=2))}}
        case "exists":
            return {"exists": {"field": random.choice(["price", "city"])}}
    parts = {
        part: [random_query(random, depth - 1) for _ in range(random.randint(1, 2))]
        for part in random.sample(["must", "should", "must_not", "filter"], random.randint(1, 2))
    }
    return {"bool": parts}


def matches(query: Query, row: Row) -> bool:
    """Does the query match the row? As OpenSearch's documentation says, of these kinds of queries."""
    [(kind, body)] = query.items()
    if kind == "bool":
        return _bool(body, row)
    if kind == "exists":
        return row[body["field"]] is not None
    [(field, asked)] = body.items()
    value = row[field.removesuffix(".keyword")]
    if value is None:
        return False
    match kind:
        case "term":
            return bool(value == asked)
        case "match":
            return bool({*str(value).split()} & {*asked.split()})
        case "range":
            [(bound, limit)] = asked.items()
            found = {"gt": value > limit, "gte": value >= limit, "lt": value < limit, "lte": value <= limit}
            return bool(found[bound])
    raise AssertionError(kind)


def _bool(body: Query, row: Row) -> bool:
    required = all(matches(each, row) for each in (*body.get("must", ()), *body.get("filter", ())))
    forbidden = any(matches(each, row) for each in body.get("must_not", ()))
    wished = body.get("should", ())
    # with neither must nor filter, one of should has to match
    enough = "must" in body or "filter" in body or not wished or any(matches(each, row) for each in wished)
    return required and enough and not forbidden


def to_text(query: Query | None) -> str | None:
    return None if query is None else json.dumps(query, indent=1)


def fields(query: Query) -> set[str]:
    """The columns that a query names."""
    [(kind, body)] = query.items()
    if kind == "bool":
        return {name for part in body.values() for each in part for name in fields(each)}
    return {body["field"]} if kind == "exists" else {name.removesuffix(".keyword") for name in body}
