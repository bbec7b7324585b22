"""The bodies of bulk requests, built column by column: puts and deletes of documents by their keys."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.feed import FeedRows
from cdc.columns.rows.documents import key_documents, portions
from cdc.core.table import Table
from cdc.sinks.opensearch.fields import write_documents

ID_BYTES: Final = 512
"""OpenSearch's limit for ids. A longer key's id is a hash; other ids are JSON and begin with a brace."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where documents are: their ids and, where it is not made of the id, their routing; an empty one is none."""

    ids: pa.Array
    routing: pa.Array | None = None


class DocumentForm(Protocol):
    """How rows become documents of an index."""

    def documents(self, rows: pa.Table, table: Table) -> pa.Array:
        """Write rows as documents, each a text of one line."""

    def addresses(self, rows: pa.Table, table: Table) -> Addresses:
        """Where the documents of rows are, which may be their keys alone."""


class WholeRows:
    """Documents with all columns of a row, and its key as their id."""

    def documents(self, rows: pa.Table, table: Table) -> pa.Array:
        return write_documents(rows, table)

    def addresses(self, rows: pa.Table, table: Table) -> Addresses:
        return Addresses(shorten(key_documents(rows, table)))


WHOLE_ROWS: Final = WholeRows()


@dataclass(frozen=True, slots=True)
class Operations:
    """Bulk actions of one kind, in columns: their ids, and their lines of the request."""

    ids: pa.Array
    lines: pa.Array
    are_deletes: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def body(self) -> bytes:
        """The body of one request."""
        # joined by Arrow: with a Python object for each line, this took a sixth of the time to fill an index
        whole = pa.ListArray.from_arrays(pa.array([0, len(self)], pa.int32()), self.lines)
        return bytes(pc.binary_join(whole, b"")[0].as_py())

    def take(self, at: Sequence[int]) -> "Operations":
        places = pa.array(at, pa.int64())
        return replace(self, ids=self.ids.take(places), lines=self.lines.take(places))

    def slice(self, start: int, length: int | None = None) -> "Operations":
        return replace(self, ids=self.ids.slice(start, length), lines=self.lines.slice(start, length))


def operations(changes: FeedRows, table: Table, version: int, form: DocumentForm = WHOLE_ROWS) -> Iterator[Operations]:
    """Make the actions for changes of a table, in parts."""
    # in any order: the changes have each key once
    yield from put_rows(changes.rows, table, version, form)
    for keys in portions(changes.gone):
        yield deletes(form.addresses(keys, table), version)


def put_rows(rows: pa.Table, table: Table, version: int, form: DocumentForm = WHOLE_ROWS) -> Iterator[Operations]:
    """Make the actions that put rows, in parts."""
    for portion in portions(rows):
        yield puts(form.addresses(portion, table), form.documents(portion, table), version)


def puts(at: Addresses, texts: pa.Array, version: int) -> Operations:
    """Make the actions that put documents, each a text of one line."""
    return Operations(at.ids, _lines("index", at, version, texts, "\n"))


def deletes(at: Addresses, version: int) -> Operations:
    return Operations(at.ids, _lines("delete", at, version), are_deletes=True)


def _meta(version: int) -> str:
    # gte: a repeated batch meets its own version. Rows are put whole, since a bulk `update` has no external version
    return f'"version":{version},"version_type":"external_gte"}}}}\n'


def _lines(action: str, at: Addresses, version: int, *behind: pa.Array | str) -> pa.Array:
    parts: list[pa.Array | str] = [f'{{"{action}":{{"_id":"', _escape(at.ids), '"']
    if at.routing is not None:
        routed = pc.binary_join_element_wise(',"routing":"', _escape(at.routing), '"', "")
        parts.append(pc.if_else(pc.equal(at.routing, ""), "", routed))
    return pc.binary_join_element_wise(*parts, f",{_meta(version)}", *behind, "").cast(pa.binary())


def _escape(texts: pa.Array) -> pa.Array:
    """Write texts as JSON has them between quotes; of keys, which are JSON, no more than quotes has to be escaped."""
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    control = pc.match_substring_regex(texts, r"[\x00-\x1f]")
    if not pc.any(control).as_py():
        return escaped
    written = [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts.filter(control).to_pylist()]
    return pc.replace_with_mask(escaped, control, pa.array(written, pa.string()))


def shorten(ids: pa.Array) -> pa.Array:
    """Replace ids that are too long by hashes of them; a whole key stays in its document."""
    long = pc.greater(pc.binary_length(ids), ID_BYTES)
    if not pc.any(long).as_py():
        return ids
    hashed = [hashlib.sha256(each.encode()).hexdigest() for each in ids.filter(long).to_pylist()]
    return pc.replace_with_mask(ids, long, pa.array(hashed, pa.string()))


def chunks(operations: Operations, most: int, most_bytes: int) -> Iterator[Operations]:
    """Cut into runs of at most `most` operations and `most_bytes`; a larger operation is a run of its own."""
    sizes = np.cumsum(np.asarray(pc.binary_length(operations.lines), np.int64)) if len(operations) else np.empty(0)
    start = 0
    while start < len(operations):
        before = sizes[start - 1] if start else 0
        # at least one, whatever its size: only the node knows its limit
        stop = max(int(np.searchsorted(sizes, before + most_bytes, "right")), start + 1)
        stop = min(stop, start + most)
        yield operations.slice(start, stop - start)
        start = stop
