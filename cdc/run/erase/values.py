"""The values of a row that tell whose it is, and the bytes by which each may lie in files and topics."""

import base64
import binascii
import json
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from cdc.core.table import Kind, Table

SHORTEST: Final = 6
"""Bytes of a text that is searched for: a shorter one is found everywhere."""
SHORTEST_NUMBER: Final = 9
"""Digits of a number that is searched for."""
MOST: Final = 500
_PASSED_OVER: Final = {Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL}
"""Kinds whose values many rows share."""


@dataclass(frozen=True)
class Sought:
    """What is searched for: `texts`, as users write them, and the bytes that stand for any of them."""

    texts: tuple[str, ...]

    @cached_property
    def patterns(self) -> tuple[bytes, ...]:
        return tuple(dict.fromkeys(pattern for text in self.texts for pattern in _encode(text)))

    def is_in(self, content: bytes | memoryview | None) -> bool:
        whole = bytes(content or b"")
        return any(pattern in whole for pattern in self.patterns)


def list_values(rows: Iterable[Mapping[str, Any]], table: Table) -> list[str]:
    """The values of versions of a row, as documents have them, that are long enough; each once."""
    kinds = {column.name: column.kind for column in table.columns}
    found = dict[str, None]()
    for row in rows:
        for name, value in row.items():
            if kinds.get(name) not in _PASSED_OVER:
                found |= dict.fromkeys(_list_leaves(value))
    return [*found][:MOST]


def _list_leaves(value: Any) -> Iterator[str]:
    match value:
        case bool() | None:
            return
        case str():
            # json and jsonb come as text: what is in it may lie elsewhere without the rest
            inner = _parse(value)
            yield from _list_leaves(inner) if isinstance(inner, dict | list) else _if_long(value)
        case int() | float():
            text = str(value)
            if sum(map(str.isdecimal, text)) >= SHORTEST_NUMBER:
                yield text
        case dict() | list():
            for item in value.values() if isinstance(value, dict) else value:
                yield from _list_leaves(item)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _if_long(text: str) -> Iterator[str]:
    if len(text.encode(errors="surrogatepass")) >= SHORTEST:
        yield text


def _encode(text: str) -> Iterator[bytes]:
    """A text as UTF-8, in JSON, in JSON within JSON (statistics in a log); numbers, UUIDs and base64 also as bytes."""
    yield text.encode(errors="surrogatepass")
    for ascii_only in (False, True):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield once.encode(errors="surrogatepass")
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1].encode(errors="surrogatepass")
    with suppress(ValueError):
        yield uuid.UUID(text).bytes
    with suppress(ValueError, struct.error):
        yield struct.pack("<q", int(text))
    with suppress(ValueError, binascii.Error):
        decoded = base64.b64decode(text, validate=True)
        if len(decoded) >= SHORTEST:
            yield decoded
