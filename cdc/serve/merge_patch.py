"""JSON merge patches (RFC 7396): what of one document has to change for another."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def make_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """The patch that makes `after` of `before`; empty for equal ones. Neither has a null in an object."""
    patch: Json = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if old == value and key in before:
            continue
        is_nested = isinstance(old, Mapping) and isinstance(value, Mapping)
        patch[key] = make_patch(old, value) if is_nested and old is not None else value
    return patch
