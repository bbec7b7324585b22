"""Documents into one index by the bulk interface, each Spark partition on its own.

Executors get plain values only, and answer with plain rows: what they met becomes an error of ours on the driver.
"""

import json
import random
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
from opensearchpy import OpenSearch
from opensearchpy.exceptions import TransportError
from pyspark.sql import Column as Col
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.columns.names import Message
from cdc.core.errors import RefusedError
from sinks.search.client import Cluster, is_passing, opened, reason_of, told, unreachable
from sinks.search.layout import generation_of

ID_BYTES: Final = 512
"""The longest id that OpenSearch takes; the ids of longer keys are hashes. An id that is a key begins with a brace."""

MOST_REFUSALS: Final = 100
"""Refusals that one partition tells of; the batch stops at the first anyway."""

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.1, 10.0

CONFLICT: Final = 409
MISSING: Final = 404
TOO_LARGE: Final = 413

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
class Refusal:
    """A document that the index does not take, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One key's action: index its document, or delete it."""

    id: str
    lines: bytes


class _Stop(Exception):
    """This partition cannot go on: its outcome and the reason."""


@dataclass(slots=True)
class _Sent:
    """One partition's way to the index."""

    client: OpenSearch
    target: Target
    refusals: list[Refusal] = field(default_factory=list)

    def send(self, chunk: list[Operation]) -> None:
        """Write a chunk until every operation is acknowledged or refused; raises _Stop when that cannot be."""
        deadline, wait = time.monotonic() + self.target.retry_seconds, FIRST_WAIT_SECONDS
        while chunk:
            chunk, reason = self._once(chunk)
            if chunk and time.monotonic() > deadline:
                raise _Stop(_UNREACHABLE, f"{reason}, for {self.target.retry_seconds:.0f} s")
            if chunk:
                time.sleep(random.uniform(wait / 2, wait))  # noqa: S311
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    def _once(self, chunk: list[Operation]) -> tuple[list[Operation], str]:
        """Write a chunk once; gives the operations to try again, and why."""
        try:
            answer = self.client.bulk(
                body=b"".join(operation.lines for operation in chunk),
                index=self.target.index,
                params={"filter_path": "errors,items.*.status,items.*.error"},
            )
        except TransportError as error:
            return self._failed(chunk, error)
        return self._judged(chunk, answer) if answer["errors"] else ([], "")

    def _failed(self, chunk: list[Operation], error: TransportError) -> tuple[list[Operation], str]:
        if error.status_code == TOO_LARGE:
            return self._split(chunk)
        if is_passing(error.status_code):
            return chunk, told(error)
        raise _Stop(_UNREACHABLE, told(error))

    def _split(self, chunk: list[Operation]) -> tuple[list[Operation], str]:
        if len(chunk) == 1:
            self._refuse(chunk[0], "the document is larger than a request may be (http.max_content_length)")
            return [], ""
        half = len(chunk) // 2
        again = [self._once(part) for part in (chunk[:half], chunk[half:])]
        return [operation for part, _ in again for operation in part], again[0][1] or again[1][1]

    def _judged(self, chunk: list[Operation], answer: dict[str, Any]) -> tuple[list[Operation], str]:
        again, reason = [], ""
        for operation, item in zip(chunk, answer["items"], strict=True):
            [found] = item.values()
            if self._is_to_repeat(operation, found["status"], found.get("error")):
                again.append(operation)
                reason = reason_of(found.get("error"))
        return again, reason

    def _is_to_repeat(self, operation: Operation, status: int, error: object) -> bool:
        if status < 300 or (status == MISSING and error is None):
            return False
        reason = reason_of(error)
        if status == CONFLICT:
            self._check_conflict(reason)
        elif is_passing(status):
            return True
        else:
            self._refuse(operation, reason)
        return False

    def _check_conflict(self, reason: str) -> None:
        """What is there is newer: applied already if this generation wrote it, else somebody else's."""
        current = _CURRENT_VERSION.search(reason)
        if current is None or generation_of(int(current[1])) != generation_of(self.target.version):
            raise _Stop(_FENCED, reason)

    def _refuse(self, operation: Operation, reason: str) -> None:
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals.append(Refusal(operation.id, reason))


def write(texts: DataFrame, target: Target) -> list[Refusal]:
    """Write documents (columns KEY and VALUE of `Message`, a null value deletes); gives those that were refused.

    All others are acknowledged. Raises UnreachableError when the cluster does not take them in time, RefusedError when
    another generation has written to the index.
    """
    written = partial(_written, target=target)
    identified = texts.select(_identity().alias("id"), F.col(Message.VALUE).alias("document"))
    told_rows = [tuple(row) for row in identified.mapInArrow(written, _TOLD).collect()]
    for outcome, _, reason in told_rows:
        if outcome == _FENCED:
            raise RefusedError(
                f"another writer has written to index {target.index}: {reason}", "stop the other `cdc follow`"
            )
        if outcome == _UNREACHABLE:
            raise unreachable(target.cluster, reason)
    return [Refusal(id, reason) for _, id, reason in told_rows]


def _identity() -> Col:
    key = F.col(Message.KEY)
    return F.when(F.octet_length(key) > ID_BYTES, F.sha2(key, 256)).otherwise(key)


def _written(batches: Iterable[pa.RecordBatch], target: Target) -> Iterator[pa.RecordBatch]:
    """On an executor: send one partition, answer with one row an outcome that is not success."""
    outcomes: list[tuple[str, str | None, str]] = []
    with opened(target.cluster) as client:
        sent = _Sent(client, target)
        try:
            for chunk in chunks(operations(batches, target.version), target):
                sent.send(chunk)
        except _Stop as stop:
            outcome, reason = stop.args
            outcomes.append((outcome, None, reason))
    # a partition must be read to its end, also where nothing more is sent
    for _ in batches:
        pass
    outcomes += [(_REFUSED, refusal.id, refusal.reason) for refusal in sent.refusals]
    columns = list(zip(*outcomes, strict=True)) or [(), (), ()]
    yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=_TOLD_SCHEMA)


def operations(batches: Iterable[pa.RecordBatch], version: int) -> Iterator[Operation]:
    """Each row of (id, document) as the lines of its action."""
    meta = f'"version":{version},"version_type":"external_gte"}}}}\n'
    for batch in batches:
        for id, document in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            place = f'"_id":{json.dumps(id)},{meta}'
            lines = f'{{"delete":{{{place}' if document is None else f'{{"index":{{{place}{document}\n'
            yield Operation(id, lines.encode())


def chunks(all_operations: Iterable[Operation], target: Target) -> Iterator[list[Operation]]:
    """Runs of operations within the target's limits; one that is larger goes alone."""
    chunk: list[Operation] = []
    size = 0
    for operation in all_operations:
        if chunk and (len(chunk) >= target.documents or size + len(operation.lines) > target.bytes):
            yield chunk
            chunk, size = [], 0
        chunk.append(operation)
        size += len(operation.lines)
    if chunk:
        yield chunk
