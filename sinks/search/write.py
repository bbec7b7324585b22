"""Documents into one index by the bulk interface, each Spark partition on its own.

Executors get plain values only, and answer with plain rows: what they met becomes an error of ours on the driver.
"""

import hashlib
import random
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from opensearchpy import OpenSearch
from opensearchpy.exceptions import TransportError

from cdc.columns.documents import documents, key_documents, portions
from cdc.columns.feed import FeedRows
from cdc.columns.table_copy import Copy
from cdc.core.errors import RefusedError
from cdc.core.table import Table
from sinks.search.client import Cluster, is_passing, line_of, opened, reason_of, unreachable
from sinks.search.layout import generation_of

ID_BYTES: Final = 512
"""The longest id that OpenSearch takes; the ids of longer keys are hashes. An id that is a key begins with a brace."""

MOST_REFUSALS: Final = 100
"""Refusals that one partition tells of; the batch stops at the first anyway."""

REQUESTS_AT_ONCE: Final = 2
"""Of one task: while the cluster works on some, the next is made ready, and its cores wait for nobody."""

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.1, 10.0

CONFLICT: Final = 409
MISSING: Final = 404
TOO_LARGE: Final = 413

_BRIEFLY, _IN_DETAIL = "errors", "errors,items.*.status,items.*.error"
_CURRENT_VERSION = re.compile(r"current version \[(\d+)\]")
_REFUSED, _UNREACHABLE, _FENCED = "refused", "unreachable", "fenced"
_TOLD = "outcome string, id string, reason string"
_TOLD_SCHEMA = pa.schema([("outcome", pa.string()), ("id", pa.string()), ("reason", pa.string())])


@dataclass(frozen=True, slots=True)
class Target:
    """An index, the version that everything written now carries, how much goes into one request, and for how long
    what the cluster is too busy for is tried again."""

    cluster: Cluster
    index: str
    version: int
    documents: int
    bytes: int
    retry_seconds: float


@dataclass(frozen=True, slots=True)
class RefusedDocument:
    """A document that the index does not take, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Operations:
    """Actions of keys, in columns: each one's id, and its lines of a request."""

    ids: pa.Array
    lines: pa.Array

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def body(self) -> bytes:
        """All lines as the body of one request."""
        # joined as one list: a Python object a line took a sixth of all that filling an index costs here
        whole = pa.ListArray.from_arrays(pa.array([0, len(self)], pa.int32()), self.lines)
        return bytes(pc.binary_join(whole, b"")[0].as_py())

    def take(self, at: Sequence[int]) -> "Operations":
        places = pa.array(at, pa.int64())
        return Operations(self.ids.take(places), self.lines.take(places))

    def slice(self, start: int, length: int | None = None) -> "Operations":
        return Operations(self.ids.slice(start, length), self.lines.slice(start, length))


class _Stop(Exception):
    """This partition cannot go on: its outcome and the reason."""


@dataclass(slots=True)
class _Sent:
    """One partition's way to the index."""

    client: OpenSearch
    target: Target
    refusals: list[RefusedDocument] = field(default_factory=list)

    def send(self, chunk: Operations) -> None:
        """Write a chunk until every operation is acknowledged or refused; raises _Stop when that cannot be."""
        deadline, wait = time.monotonic() + self.target.retry_seconds, FIRST_WAIT_SECONDS
        while len(chunk):
            # sent again, an operation that had arrived meets its own version, and that is allowed
            again, reason = self._once(chunk)
            chunk = chunk.take(again)
            if len(chunk) and time.monotonic() > deadline:
                raise _Stop(_UNREACHABLE, f"{reason}, for {self.target.retry_seconds:.0f} s")
            if len(chunk):
                # not all at one moment: executors are turned away together
                time.sleep(random.uniform(wait / 2, wait))  # noqa: S311
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    def _once(self, chunk: Operations) -> tuple[Sequence[int], str]:
        """Write a chunk; gives the places of the operations to try again, and why."""
        body = chunk.body
        try:
            # the node takes a tenth longer when it is to tell of each operation, and nearly always there is nothing
            if not self._bulk(body, _BRIEFLY)["errors"]:
                return [], ""
            # what it took it takes again, at the same version
            answer = self._bulk(body, _IN_DETAIL)
        except TransportError as error:
            return self._failed(chunk, error)
        return self._judged(chunk, answer)

    def _bulk(self, body: bytes, told: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.bulk(body=body, index=self.target.index, params={"filter_path": told})
        return found

    def _failed(self, chunk: Operations, error: TransportError) -> tuple[Sequence[int], str]:
        if error.status_code == TOO_LARGE:
            return self._split(chunk)
        if is_passing(error.status_code):
            return range(len(chunk)), line_of(error)
        raise _Stop(_UNREACHABLE, line_of(error))

    def _split(self, chunk: Operations) -> tuple[Sequence[int], str]:
        if len(chunk) == 1:
            self._refuse(chunk.ids[0].as_py(), "the document is larger than a request may be (http.max_content_length)")
            return [], ""
        half = len(chunk) // 2
        first, reason = self._once(chunk.slice(0, half))
        second, other = self._once(chunk.slice(half))
        return [*first, *(half + place for place in second)], reason or other

    def _judged(self, chunk: Operations, answer: dict[str, Any]) -> tuple[Sequence[int], str]:
        again, reason = [], ""
        for place, item in enumerate(answer["items"]):
            [found] = item.values()
            if self._is_to_repeat(chunk, place, found["status"], found.get("error")):
                again.append(place)
                reason = reason_of(found.get("error"))
        return again, reason

    def _is_to_repeat(self, chunk: Operations, place: int, status: int, error: object) -> bool:
        # a delete of what is not there is answered 404 without an error; with one, the index is missing
        if status < 300 or (status == MISSING and error is None):
            return False
        reason = reason_of(error)
        if status == CONFLICT:
            self._check_conflict(reason)
        elif is_passing(status):
            return True
        else:
            self._refuse(chunk.ids[place].as_py(), reason)
        return False

    def _check_conflict(self, reason: str) -> None:
        """What is there is newer: applied already if this generation wrote it, else somebody else's."""
        current = _CURRENT_VERSION.search(reason)
        # external_gte: an equal version would have been taken, so the one that is there is above ours
        if current is None or generation_of(int(current[1])) != generation_of(self.target.version):
            raise _Stop(_FENCED, reason)

    def _refuse(self, id: str, reason: str) -> None:
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals.append(RefusedDocument(id, reason))


def fill(copy: Copy, table: Table, target: Target) -> list[RefusedDocument]:
    """Write the rows of a copy from the executors; gives those that were refused.

    All others are acknowledged. Raises UnreachableError when the cluster does not take them in time, RefusedError when
    another generation has written to the index.
    """
    rows = copy.mapped(partial(_filled, table=table, target=target), _TOLD).collect()
    return _judged([tuple(row) for row in rows], target)


def send(client: OpenSearch, parts: Iterable[Operations], target: Target) -> list[RefusedDocument]:
    """Write operations from here; gives those that were refused. Raises as `fill` does."""
    return _judged(_outcomes(client, parts, target), target)


def _judged(outcomes: Sequence[tuple[str, str, str]], target: Target) -> list[RefusedDocument]:
    for outcome, _, reason in outcomes:
        if outcome == _FENCED:
            raise RefusedError(
                f"another writer has written to index {target.index}: {reason}", "stop the other `cdc follow`"
            )
        if outcome == _UNREACHABLE:
            raise unreachable(target.cluster, reason)
    return [RefusedDocument(id, reason) for _, id, reason in outcomes]


def _outcomes(client: OpenSearch, parts: Iterable[Operations], target: Target) -> list[tuple[str, str, str]]:
    """Send everything; what was not a success, as its outcome, an id, and the reason."""
    sent, stopped = _Sent(client, target), list[tuple[str, str, str]]()
    try:
        _beside(sent.send, (chunk for part in parts for chunk in chunks(part, target)))
    except _Stop as stop:
        outcome, reason = stop.args
        stopped.append((outcome, "", reason))
    return [*stopped, *((_REFUSED, refusal.id, refusal.reason) for refusal in sent.refusals)]


def _beside(send: Callable[[Operations], None], chunks: Iterable[Operations]) -> None:
    """Send chunks, some beside each other: no two have a key in common. Raises what the first that failed has met."""
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
        under_way = deque[Future[None]]()
        for chunk in chunks:
            if len(under_way) == REQUESTS_AT_ONCE:
                under_way.popleft().result()
            under_way.append(threads.submit(send, chunk))
        for each in under_way:
            each.result()


def _filled(parts: Iterator[pa.Table], table: Table, target: Target) -> Iterator[pa.RecordBatch]:
    """On an executor: send the rows of one task, answer with one row an outcome that is not success."""
    with opened(target.cluster) as client:
        outcomes = _outcomes(client, (part for rows in parts for part in _puts(rows, table, target.version)), target)
    columns = list(zip(*outcomes, strict=True)) or [(), (), ()]
    yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=_TOLD_SCHEMA)


def operations(changes: FeedRows, table: Table, version: int) -> Iterator[Operations]:
    """What writes changes of a table, in parts."""
    yield from _puts(changes.rows, table, version)
    for keys in portions(changes.gone):
        yield deletes(key_documents(keys, table), version)


def _puts(rows: pa.Table, table: Table, version: int) -> Iterator[Operations]:
    for portion in portions(rows):
        yield puts(key_documents(portion, table), documents(portion, table), version)


def puts(keys: pa.Array, documents: pa.Array, version: int) -> Operations:
    """Documents to be put under their keys, both JSON texts."""
    ids = _identities(keys)
    return Operations(ids, _lines('{"index":{"_id":"', ids, f'",{_meta(version)}', documents, "\n"))


def deletes(keys: pa.Array, version: int) -> Operations:
    """Documents to be deleted, by their keys."""
    ids = _identities(keys)
    return Operations(ids, _lines('{"delete":{"_id":"', ids, f'",{_meta(version)}'))


def _meta(version: int) -> str:
    return f'"version":{version},"version_type":"external_gte"}}}}\n'


def _lines(before: str, ids: pa.Array, *behind: pa.Array | str) -> pa.Array:
    """An id is a JSON text, or a hash: what is to be escaped in it are its quotes and backslashes."""
    escaped = pc.replace_substring(pc.replace_substring(ids, "\\", "\\\\"), '"', '\\"')
    return pc.binary_join_element_wise(before, escaped, *behind, "").cast(pa.binary())


def _identities(keys: pa.Array) -> pa.Array:
    long = pc.greater(pc.binary_length(keys), ID_BYTES)
    if not pc.any(long).as_py():
        return keys
    hashed = [hashlib.sha256(key.encode()).hexdigest() for key in keys.filter(long).to_pylist()]
    return pc.replace_with_mask(keys, long, pa.array(hashed, pa.string()))


def chunks(operations: Operations, target: Target) -> Iterator[Operations]:
    """Runs of operations within the target's limits; one that is larger goes alone."""
    sizes = np.cumsum(np.asarray(pc.binary_length(operations.lines), np.int64)) if len(operations) else np.empty(0)
    start = 0
    while start < len(operations):
        before = sizes[start - 1] if start else 0
        stop = max(int(np.searchsorted(sizes, before + target.bytes, "right")), start + 1)
        stop = min(stop, start + target.documents)
        yield operations.slice(start, stop - start)
        start = stop
