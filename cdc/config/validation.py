"""Explains pydantic's errors to users; bounds and choices come from the JSON Schema of the models."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cdc.config.settings import PipelineSettings
from cdc.connect.settings import CHOSEN_TYPE
from cdc.connect.table_choices import CHOSEN_TYPES
from cdc.core.settings import Finding, SettingPath

Node = Mapping[str, Any]
"""A piece of JSON Schema."""

LONGEST_VALUE = 60
SHOWN = {"integer", "number", "boolean"}
"""Types whose wrong values are shown; free text could be a secret in the wrong place."""

FIXED = {"missing": "is required", "invalid_key": "is a key that is not text; put it in quotes"}

NAMES = {"boolean": "true or false", "array": "a list", "object": "a block of keys"}

# the models' own patterns: one that is not listed here is shown as it is
PATTERNS = {
    r"^https?://": "an address that starts with http:// or https://",
    r"^[a-z][a-z0-9_]{0,39}$": "a name: up to 40 of a-z, 0-9 and _, a letter first",
    r"^[a-z][a-z0-9_-]{0,39}$": "a name: up to 40 of a-z, 0-9, _ and -, a letter first",
    r"^[a-zA-Z0-9_-]{1,63}$": "a name: up to 63 letters, digits, _ and -",
    r"^[a-zA-Z0-9_-]{0,100}$": "up to 100 letters, digits, _ and -",
    r"^([a-z][a-z0-9_-]{0,99})?$": "up to 100 of a-z, 0-9, _ and -, a letter first",
    r"^[a-zA-Z0-9._-]{0,200}$": "up to 200 letters, digits, ., _ and -",
    r"^[a-z0-9_]{0,63}$": "up to 63 of a-z, 0-9 and _",
    r"^[^,\s]+$": "one name or address, without a blank",
    r"^[^/?#%\s]*$": "a name without /, ?, #, % and spaces",
    r"^https?://[^\s@]+$": "an address that starts with http:// or https://, without a password",
    r"^[1-9][0-9]*[kmgtKMGT]$": "an amount of memory such as 2g or 512m",
    CHOSEN_TYPE: CHOSEN_TYPES,
}


# cached: it takes 20 ms, and every error walks through it
@cache
def plain_schema() -> dict[str, Any]:
    """The JSON Schema of `PipelineSettings`, as pydantic writes it."""
    return PipelineSettings.model_json_schema()


def findings(error: ValidationError, used: Mapping[SettingPath, str]) -> list[Finding]:
    """Convert each error to its path and half a sentence; `used`: path → the reference that the value came from."""
    return [f for detail in error.errors(include_url=False) for f in _to_findings(detail, used)]


def _to_findings(detail: ErrorDetails, used: Mapping[SettingPath, str]) -> list[Finding]:
    place, node = _walk(detail["loc"])
    kind, ctx = detail["type"], detail.get("ctx", {})
    match kind:
        case "findings":
            return [((*place, *rest), text) for rest, text in ctx["findings"]]
        case "union_tag_not_found":
            return [((*place, "kind"), f"is required: {_one_of(_kinds(node))}")]
        case "union_tag_invalid":
            return [((*place, "kind"), _not_one_of(ctx["tag"], _kinds(node), used.get((*place, "kind"))))]
        case "extra_forbidden":
            known = _walk(detail["loc"][:-1])[1].get("properties", {})
            return [(place, f"unknown key{_suggest(place[-1], known)}")]
    # FIXED first: the schema has no word for a missing key
    sentence = FIXED.get(kind) or _mismatch(detail["input"], node, used.get(place))
    return [(place, sentence or detail["msg"].lower())]


def _mismatch(value: object, node: Node, reference: str | None) -> str:
    """`"54x" is not a whole number between 1 and 65535`."""
    if "enum" in node:
        return _not_one_of(value, node["enum"], reference)
    if value is None:
        return "is empty"
    if value in ("", [], {}):
        return "must not be empty"
    # YAML reads 12, true and 2024-01-01 without quotes as other types
    if node.get("type") == "string" and not isinstance(value, str | dict | list):
        return f"{_subject(value, node, reference)} is not text; put it in quotes"
    expected = describe(node)
    return f"{_subject(value, node, reference)} is not {expected}" if expected else ""


def describe(node: Node) -> str:
    """Describe the values that a node of the schema allows: `a whole number between 1 and 65535`."""
    if "const" in node:
        return json.dumps(node["const"])
    match node.get("type"):
        case "integer":
            return f"a whole number{_bounds(node)}"
        case "number":
            return f"a number{_bounds(node)}"
        case "string":
            return _text(node)
    return NAMES.get("object" if "discriminator" in node else node.get("type", ""), "")


def _text(node: Node) -> str:
    if "pattern" in node:
        return PATTERNS.get(node["pattern"], f"text that matches {node['pattern']}")
    return f"text of at most {node['maxLength']} characters" if "maxLength" in node else "text"


def _bounds(node: Node) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None:
        return f" between {low} and {high}"
    if low is not None:
        return f" of at least {low}"
    return f" of at most {high}" if high is not None else ""


def _subject(value: object, node: Node, reference: str | None) -> str:
    if reference:
        return f"the value of {reference}"
    # free text is not shown: a secret may be at the wrong key
    is_shown = not node.get("writeOnly") and (node.get("type") in SHOWN or "pattern" in node or "const" in node)
    return _format_value(value) if is_shown and not isinstance(value, dict | list) else "the value"


def _format_value(value: object) -> str:
    """Write the value in quotes, without text before an @, which may be a password."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    text = re.sub(r"[^\"/]*@", "…@", text)
    return text if len(text) <= LONGEST_VALUE else f'{text[:LONGEST_VALUE]}…"'


def _not_one_of(value: object, choices: list[str], reference: str | None) -> str:
    # a suggestion would tell much of a value that is not to be shown
    meant = "" if reference else _suggest(value, choices)
    subject = f"the value of {reference}" if reference else _format_value(value)
    return f"{subject} is not {_one_of(choices)}{meant}"


def _one_of(choices: list[str]) -> str:
    return f"one of {', '.join(choices)}"


def _suggest(word: object, known: Mapping[str, Any] | list[str]) -> str:
    close = get_close_matches(str(word), list(known), n=1)
    return f", did you mean '{close[0]}'?" if close else ""


def _kinds(node: Node) -> list[str]:
    mapping: dict[str, str] = node.get("discriminator", {}).get("mapping", {})
    return list(mapping)


def _walk(loc: tuple[str | int, ...]) -> tuple[SettingPath, Node]:
    """Convert a `loc` to a path and a node of the schema; a `loc` has a union's tag as a step of its own."""
    place: SettingPath = ()
    node = _resolve(plain_schema())
    parent = node
    for step in loc:
        mapping = node.get("discriminator", {}).get("mapping", {})
        # pydantic's step for a name that was refused, not its value
        if step == "[key]":
            node = {"type": "string", "pattern": next(iter(parent.get("patternProperties", {"": ""})))}
        elif step in mapping:
            node = _resolve({"$ref": mapping[step]})
        else:
            place, parent, node = (*place, step), node, _resolve(_child(node, step))
    return place, node


def _child(node: Node, step: str | int) -> Node:
    if isinstance(step, int):
        return dict(node.get("items", {}))
    by_pattern: Any = next(iter(node.get("patternProperties", {}).values()), {})
    found = node.get("properties", {}).get(step) or by_pattern or node.get("additionalProperties")
    return found if isinstance(found, dict) else {}


def _resolve(node: Node) -> Node:
    """The node itself, where it is a reference or an optional value."""
    if "$ref" in node:
        found: Node = plain_schema()["$defs"][node["$ref"].removeprefix("#/$defs/")]
        return found
    if "anyOf" in node:
        # pydantic writes an optional value as a choice between it and null
        return _resolve(next(option for option in node["anyOf"] if option.get("type") != "null"))
    return node
