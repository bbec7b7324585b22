"""Writes documents into one index by bulk requests, from Spark's executors or from the driver.

Executors get plain values and answer with plain rows; the driver makes CdcErrors of them.
"""

import json
import random
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
from opensearchpy import OpenSearch
from opensearchpy.exceptions import TransportError

from cdc.columns.rows.documents import describe_key
from cdc.columns.small_copies import collect_rows
from cdc.columns.table_copy import TableCopy
from cdc.core import errors
from cdc.core.counters import COUNTERS, FAILED, REJECTED, SEARCH, STALE
from cdc.core.errors import CdcError, PicklableError, RefusedError, UnreachableError
from cdc.core.table import Table
from cdc.core.waiting import Deadline
from cdc.sinks.opensearch.bulk import WHOLE_ROWS, DocumentForm, Operations, chunks, put_rows
from cdc.sinks.opensearch.client import (
    BUSY,
    describe_refusal,
    find_failure,
    is_transient,
    open_raw_client,
    read_reason,
    to_cdc_error,
    transient_error,
)
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import is_own_version

MOST_REFUSALS: Final = 100
"""The most refusals of rows that one task reports; the first one stops the table anyway."""

REQUESTS_AT_ONCE: Final = 2
"""Concurrent requests of one task: while the cluster works on one, the task builds the next."""

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.1, 10.0

CONFLICT: Final = 409
MISSING: Final = 404
TOO_LARGE: Final = 413

REQUIRE_ALIAS: Final = b'{"update":{"_id":"-","routing":"-"}}\n{"doc":{}}\n'
"""An action that changes nothing. OpenSearch asks it for `require_alias`, and no delete: a request of deletes with
versions creates an index that is missing (found by CI, OpenSearch 3)."""

_BRIEFLY, _IN_DETAIL = "errors", "errors,items.*.status,items.*.error"
_CURRENT_VERSION = re.compile(r"current version \[(\d+)\]")
_REFUSED = "refused"
_TOLD_SCHEMA = pa.schema([(name, pa.string()) for name in ("outcome", "id", "what", "remedy")])
_TOLD = ", ".join(f"{name} string" for name in _TOLD_SCHEMA.names)


@dataclass(frozen=True, slots=True)
class Target:
    """The index of a table with this key, the version of all writes, and the limits of requests and retries.

    `form`: of the documents. `is_alias`: `index` is an alias; without its index, the cluster must not create one.
    `most_refusals` are reported of one task, each with the reason as `describe` tells it.
    """

    cluster: Cluster
    index: str
    key: Sequence[str]
    version: int
    documents: int
    bytes: int
    retry_seconds: float
    is_alias: bool = False
    most_refusals: int = MOST_REFUSALS
    describe: Callable[[object], str] = describe_refusal
    form: DocumentForm = WHOLE_ROWS


@dataclass(frozen=True, slots=True)
class RefusedDocument:
    """A refused document: its id and routing, its row's key (`where`, whose values are in `key`), and the reason."""

    id: str
    where: str
    reason: str
    routing: str = ""
    key: Sequence[Any] = ()


Again = tuple[Sequence[int], UnreachableError | None]
"""The places of the operations to repeat, and the reason."""


class _StopError(PicklableError):
    """A task cannot go on; `failure` is the reason."""

    def __init__(self, failure: CdcError) -> None:
        super().__init__(str(failure))
        self.failure = failure


@dataclass(slots=True)
class _Sender:
    """Sends the operations of one task."""

    client: OpenSearch
    target: Target
    refusals: list[RefusedDocument] = field(default_factory=list)

    def send(self, chunk: Operations) -> None:
        """Write a chunk until every operation is acknowledged or refused; raises _StopError if that is not possible."""
        deadline, wait = Deadline(self.target.retry_seconds), FIRST_WAIT_SECONDS
        while len(chunk):
            # repeating an operation that had arrived is fine: it meets its own version
            again, failure = self._once(chunk)
            chunk = chunk.take(again)
            if failure and deadline.is_past:
                told = f"{failure.what}, for {self.target.retry_seconds:.0f} s"
                raise _StopError(UnreachableError(told, failure.remedy))
            if failure:
                # jitter: the cluster rejects all executors at the same moment
                time.sleep(random.uniform(wait / 2, wait))  # noqa: S311
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    def _once(self, chunk: Operations) -> Again:
        """Write a chunk once; returns the places of the operations to repeat, and the reason."""
        body = chunk.body
        try:
            if self.target.is_alias and chunk.are_deletes:
                return self._find_repeats(chunk, self._bulk(REQUIRE_ALIAS + body, _IN_DETAIL)["items"][1:])
            # without details, which take the node a tenth longer and are almost always empty
            if not self._bulk(body, _BRIEFLY)["errors"]:
                return [], None
            # again with details: accepted operations are accepted again, at the same version
            items = self._bulk(body, _IN_DETAIL)["items"]
        except TransportError as error:
            return self._handle_failure(chunk, error)
        return self._find_repeats(chunk, items)

    def _bulk(self, body: bytes, told: str) -> dict[str, Any]:
        params = {"filter_path": told, **({"require_alias": "true"} if self.target.is_alias else {})}
        found: dict[str, Any] = self.client.bulk(body=body, index=self.target.index, params=params)
        return found

    def _handle_failure(self, chunk: Operations, error: TransportError) -> Again:
        if error.status_code == TOO_LARGE:
            return self._split(chunk)
        failure = to_cdc_error(self.target.cluster, error)
        if is_transient(error.status_code) and isinstance(failure, UnreachableError):
            if error.status_code == BUSY:
                COUNTERS.add(SEARCH, REJECTED, len(chunk))
            return range(len(chunk)), failure
        raise _StopError(failure)

    def _split(self, chunk: Operations) -> Again:
        if len(chunk) == 1:
            self._refuse(chunk, 0, "the document is larger than a request may be (http.max_content_length)")
            return [], None
        # the node does not say how large a request may be: halve until it takes one
        half = len(chunk) // 2
        first, failure = self._once(chunk.slice(0, half))
        second, other = self._once(chunk.slice(half))
        return [*first, *(half + place for place in second)], failure or other

    def _find_repeats(self, chunk: Operations, items: Sequence[Mapping[str, Any]]) -> Again:
        again, failure = list[int](), None
        for place, item in enumerate(items):
            [found] = item.values()
            if self._is_to_repeat(chunk, place, found["status"], found.get("error")):
                again.append(place)
                failure = transient_error(self.target.cluster, found["status"], read_reason(found.get("error")))
        return again, failure

    def _is_to_repeat(self, chunk: Operations, place: int, status: int, error: object) -> bool:
        # 404 without an error: the deleted document does not exist; with one: the index does not exist
        if status < 300 or (status == MISSING and error is None):
            return False
        if failure := find_failure(self.target.cluster, error):
            raise _StopError(failure)
        reason = read_reason(error)
        if status == CONFLICT:
            self._check_conflict(reason)
            COUNTERS.add(SEARCH, STALE)
        elif is_transient(status):
            COUNTERS.add(SEARCH, REJECTED)
            return True
        else:
            self._refuse(chunk, place, self.target.describe(error))
        return False

    def _check_conflict(self, reason: str) -> None:
        """Check a version conflict: the newer version may be one of ours; any other is a foreign writer's."""
        current = _CURRENT_VERSION.search(reason)
        # external_gte accepts equal versions, so the existing one is above ours
        if current is None or not is_own_version(int(current[1])):
            told = f"another writer has written to index {self.target.index}: {reason}"
            raise _StopError(RefusedError(told, "stop the other `cdc follow`"))

    def _refuse(self, chunk: Operations, place: int, reason: str) -> None:
        COUNTERS.add(SEARCH, FAILED)
        if len(self.refusals) < self.target.most_refusals:
            id = chunk.ids[place].as_py()
            action, _, document = chunk.lines[place].as_py().partition(b"\n")
            [meta] = json.loads(action).values()
            # a delete has no document
            where = describe_key(document, self.target.key) if document else id
            values = json.loads(document) if document else {}
            key = [values[name] for name in self.target.key if name in values]
            self.refusals.append(RefusedDocument(id, where, reason, meta.get("routing", ""), key))


def fill(copy: TableCopy, table: Table, target: Target) -> list[RefusedDocument]:
    """Write the rows of a copy, a large one from the executors; returns the refused documents, all others are
    acknowledged.

    Raises UnreachableError when the cluster does not take them in time, RefusedError when another writer has
    written to the index, and the errors of `to_cdc_error`.
    """
    return _raise_or_list(collect_rows(copy, partial(_fill_part, table=table, target=target), _TOLD))


def send(client: OpenSearch, parts: Iterable[Operations], target: Target) -> list[RefusedDocument]:
    """Write operations from this process; returns the refused documents. Raises like `fill`."""
    return _raise_or_list(_outcomes(client, parts, target))


def _raise_or_list(outcomes: Sequence[tuple[str, str, str, str]]) -> list[RefusedDocument]:
    for outcome, _, what, remedy in outcomes:
        if outcome != _REFUSED:
            kind: type[CdcError] = getattr(errors, outcome)
            raise kind(what, remedy)
    return [RefusedDocument(id, *json.loads(told)) for _, id, told, _ in outcomes]


def _outcomes(client: OpenSearch, parts: Iterable[Operations], target: Target) -> list[tuple[str, str, str, str]]:
    """Send everything; returns the failures as (error type, id, event, remedy)."""
    sent, stopped = _Sender(client, target), list[tuple[str, str, str, str]]()
    try:
        _send_concurrently(sent.send, (each for part in parts for each in chunks(part, target.documents, target.bytes)))
    except _StopError as stop:
        stopped.append((type(stop.failure).__name__, "", stop.failure.what, stop.failure.remedy))
    return [
        *stopped,
        *(
            (_REFUSED, each.id, json.dumps([each.where, each.reason, each.routing, each.key]), "")
            for each in sent.refusals
        ),
    ]


def _send_concurrently(send: Callable[[Operations], None], chunks: Iterable[Operations]) -> None:
    """Send chunks, some concurrently: no two share a key. Raises the first error."""
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
        under_way = deque[Future[None]]()
        for chunk in chunks:
            # before the next chunk is made: no more of them are in memory than requests under way
            if len(under_way) == REQUESTS_AT_ONCE:
                under_way.popleft().result()
            under_way.append(threads.submit(send, chunk))
        for each in under_way:
            each.result()


def _fill_part(parts: Iterator[pa.Table], table: Table, target: Target) -> Iterator[pa.RecordBatch]:
    """Send the rows of one task; returns one row for each failure."""
    with open_raw_client(target.cluster) as client:
        outcomes = _outcomes(
            client, (part for rows in parts for part in put_rows(rows, table, target.version, target.form)), target
        )
    columns = list(zip(*outcomes, strict=True)) or [()] * len(_TOLD_SCHEMA)
    yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=_TOLD_SCHEMA)
