"""text, enum, json, uuid: what is text in every follower."""

import json
import re
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.types.copied_fields import to_texts
from cdc.columns.types.postgres_type import AS_TEXT, KEYWORD, Bytes, KeyForm, PostgresType, read_plain
from cdc.columns.types.text_meaning import AS_TEXTS, Meaning, UseKind
from cdc.core.table import Column, Kind

# json.dumps with ensure_ascii=False escapes exactly these
_TO_ESCAPE: Final = r'[\x00-\x1f"\\]'
_UUID_DASHES: Final = (8, 13, 18, 23)


def put_in_quotes(text: pa.Array, behind: str = "") -> pa.Array:
    """Write texts without special characters as JSON's strings."""
    return pc.binary_join_element_wise('"', text, f'{behind}"', "")


def _to_json(array: pa.Array) -> pa.Array:
    if not _may_need_escapes(array):
        return put_in_quotes(array)
    special = pc.match_substring_regex(array, _TO_ESCAPE)
    text = put_in_quotes(array)
    if not pc.any(special).as_py():
        return text
    escaped = pa.array([json.dumps(value, ensure_ascii=False) for value in array.filter(special).to_pylist()])
    return pc.replace_with_mask(text, pc.fill_null(special, False), escaped)


def _may_need_escapes(array: pa.Array) -> bool:
    """Look through all bytes at once, which takes a fraction of an expression's time for each value."""
    if array.type != pa.string() or not len(array):
        return True
    _, bounds, content = array.buffers()
    # no buffer: all values are null or empty
    if content is None:
        return False
    ends = np.frombuffer(bounds, np.int32)[array.offset : array.offset + len(array) + 1]
    # what lies below a null is looked at, too: at worst in vain
    held = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    return any(bool(found.any()) for found in (held < ord(" "), held == ord('"'), held == ord("\\")))


def _uuid_bytes(array: pa.Array) -> Bytes:
    """Convert UUIDs of 36 characters, four of them dashes, to 16 bytes."""
    text = _characters(array.cast(pa.string()), 36)
    digits = np.delete(text, _UUID_DASHES, axis=1)
    # Postgres writes lower case; np.where computes both branches, and the unused one may wrap below 0
    values: Bytes = np.where(digits >= ord("a"), digits - (ord("a") - 10), digits - ord("0")).astype(np.uint8)
    return ((values[:, 0::2] << 4) | values[:, 1::2]).astype(np.uint8)


def _characters(array: pa.Array, width: int) -> Bytes:
    # a slice shares the buffers of the whole array, so apply its offset
    _, offsets, data = array.buffers()
    if not len(array):
        return np.empty((0, width), np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]].reshape(len(array), width)


SHORT_TEXT: Final = PostgresType(
    Kind.TEXT,
    arrow=pa.string(),
    sent_as=str,
    from_log=read_plain(pa.string()),
    from_text=read_plain(pa.string()),
    selected=AS_TEXT,
    from_copy=to_texts,
    to_json=_to_json,
    index=KEYWORD,
)
"""What types have in common that are text in followers; each gives a kind of its own."""
TEXT: Final = replace(
    SHORT_TEXT,
    names=("text", "varchar", "bpchar", "name", "xml"),
    extensions=("citext",),
    compared_otherwise={
        "bpchar": Meaning("is char(n), text with the blanks at its end in the lake", AS_TEXTS, "use rtrim({name})"),
        "citext": Meaning(
            "is citext, text in the lake, where upper and lower case differ",
            AS_TEXTS | {UseKind.MATCHED},
            "use lower({name})",
        ),
    },
    is_out_of_line=True,
    selected="{}",
    index={"type": "text", "fields": {"keyword": KEYWORD}},
)
ENUM: Final = replace(
    SHORT_TEXT,
    kind=Kind.ENUM,
    meaning=Meaning(
        "is an enum, whose labels are text in the lake and sort by their letters",
        frozenset({UseKind.ORDERED}),
        "sort by array_position(array('first label', 'second label'), {name})",
    ),
    lines={"an enum": Column("", Kind.ENUM)},
)
UUID: Final = replace(
    SHORT_TEXT,
    kind=Kind.UUID,
    names=("uuid",),
    key=KeyForm(16, _uuid_bytes),
    meaning=Meaning(
        "is a uuid, text of lower-case letters in the lake",
        frozenset({UseKind.LITERAL}),
        "write the literal in lower case, with its four hyphens",
        re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch,
    ),
)
JSON: Final = replace(
    SHORT_TEXT,
    kind=Kind.JSON,
    names=("json", "jsonb"),
    is_out_of_line=True,
    # as text, since flat_object takes neither arrays nor scalars
    index={"type": "text"},
    meaning=Meaning(
        "is JSON, its text in the lake", AS_TEXTS, "compare values in it: get_json_object({name}, '$.field')"
    ),
    exact="exact, as its text",
)
STRUCT: Final = replace(SHORT_TEXT, kind=Kind.STRUCT, is_comparable=False)
"""Of views only: the forms are made of those of its fields (`registry.py`); the source has none."""
