"""Clients of an OpenSearch cluster, from plain values that Spark can send to executors, and translated errors."""

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opensearchpy import OpenSearch
from opensearchpy.exceptions import (
    AuthenticationException,
    AuthorizationException,
    ConnectionError,
    SSLError,
    TransportError,
)

from cdc.core.errors import CdcError, CopyLostError, PreconditionError, UnreachableError
from cdc.sinks.opensearch.cluster import Cluster, login_options

TIMEOUT_SECONDS = 60
IDLE_SECONDS: Final = 10.0
"""After which a connection is not used again."""
CONNECTIONS = 8
"""The size of the connection pool: two for each table that is written at the same time."""
LIST_BYTES: Final = 3000
"""Of the names in one request's line, of which a node takes 4,096 bytes (http.max_initial_line_length)."""
BUSY = 429
SERVER_FAULT = 500
# the parts of a reason that quote a document's values: they belong in no log
_VALUES = re.compile(
    r" in document with id '.*?'|\. Preview of field's value: .*|, all of which were skipped\..*", re.DOTALL
)
_BLOCK = re.compile(r"(?:index \[(?P<index>[^\]]+)\] )?blocked by: \[[A-Z_]+/(?P<number>\d+)/(?P<told>[^\]]*)\]")
# the numbers are OpenSearch's own (ClusterBlock, IndexMetadata, Metadata)
_CLOSED: Final = 4
_FLOODED: Final = 12
_INDEX_BLOCKS: Final = {
    5: "index.blocks.read_only",
    7: "index.blocks.read",
    8: "index.blocks.write",
    9: "index.blocks.metadata",
}
_CLUSTER_BLOCKS: Final = {
    6: "cluster.blocks.read_only",
    10: "cluster.blocks.create_index",
    13: "cluster.blocks.read_only_allow_delete",
}
_STARTING: Final = {1, 2}

# the client logs every failed request with its traceback: without a handler Python prints that on stderr, and so does
# the root logger's, once Spark has started
_client_log = logging.getLogger("opensearch")
_client_log.addHandler(logging.NullHandler())
_client_log.propagate = False


@contextmanager
def open_raw_client(cluster: Cluster, **options: Any) -> Iterator[OpenSearch]:
    """Open a client of the cluster; it connects at its first request, and retries nothing."""
    client = make_raw_client(cluster, **options)
    try:
        yield client
    finally:
        client.close()


def make_raw_client(cluster: Cluster, **options: Any) -> OpenSearch:
    """Make a client of the cluster, which the caller closes; it connects at its first request, and retries nothing."""
    # no retries here: callers know which requests to repeat, and until when
    return OpenSearch(
        hosts=[cluster.url],
        timeout=TIMEOUT_SECONDS,
        max_retries=0,
        pool_maxsize=CONNECTIONS,
        **login_options(cluster),
        **options,
    )


@contextmanager
def open_client(cluster: Cluster, **options: Any) -> Iterator[OpenSearch]:
    """Open a client that raises CdcError; UnreachableError if a later attempt may succeed."""
    with translate_errors(cluster), open_raw_client(cluster, **options) as client:
        yield client


@contextmanager
def translate_errors(cluster: Cluster) -> Iterator[None]:
    """Raise CdcError for an error of a client; UnreachableError if a later attempt may succeed."""
    try:
        yield
    except TransportError as error:
        raise to_cdc_error(cluster, error) from error


class StandingClient:
    """A client that stays connected from one batch to the next: to connect takes as long as a small request."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client: OpenSearch | None = None
        self._used = 0.0

    @contextmanager
    def use(self) -> Iterator[OpenSearch]:
        """The client; raises as that of `open_client`. After an error the next use connects anew."""
        # what lies between may forget an idle connection, and tell nobody
        if time.monotonic() - self._used > IDLE_SECONDS:
            self.close()
        self._client = self._client or make_raw_client(self._cluster)
        try:
            with translate_errors(self._cluster):
                yield self._client
        except BaseException:
            self.close()
            raise
        self._used = time.monotonic()

    def close(self) -> None:
        client, self._client = self._client, None
        if client:
            client.close()


def to_cdc_error(cluster: Cluster, error: TransportError) -> CdcError:
    """Translate the error of one request to one line with a remedy."""
    # first: an SSLError is a ConnectionError as well, and no retry cures it
    if isinstance(error, SSLError) or "alert" in describe_error(error):
        told = f"OpenSearch {cluster}: no session of TLS: {describe_error(error)}"
        return PreconditionError(
            told, "check url and ca_file, and where it asks for one, certificate_file and key_file"
        )
    body = error.info if isinstance(error.info, dict) else {}
    if known := find_failure(cluster, body.get("error")):
        return known
    match error:
        case AuthenticationException():
            told = f"OpenSearch {cluster} does not let {cluster.who} in"
            found = PreconditionError(told, f"check {cluster.settings_of_login}")
        case AuthorizationException():
            found = _access_error(cluster, describe_error(error))
        case _ if isinstance(error, ConnectionError) or is_transient(error.status_code):
            return transient_error(cluster, error.status_code, describe_error(error))
        case _:
            told = f"OpenSearch {cluster} refused a request: {describe_error(error)}"
            found = PreconditionError(told, "see the cluster's log")
    return found


def refresh(client: OpenSearch, indexes: Sequence[str]) -> None:
    """Make what was written to these indexes visible to searches."""
    for names in list_names(indexes):
        client.indices.refresh(index=names)


def list_names(names: Sequence[str], most_bytes: int = LIST_BYTES) -> Iterator[str]:
    """Put names together, with commas, into lists that each fit into the line of a request."""
    some, size = list[str](), 0
    for name in names:
        if some and size + len(name) >= most_bytes:
            yield ",".join(some)
            some, size = [], 0
        some.append(name)
        size += len(name) + 1
    if some:
        yield ",".join(some)


def _access_error(cluster: Cluster, reason: str) -> PreconditionError:
    told = f"OpenSearch {cluster} does not let {cluster.who} do this: {reason}"
    return PreconditionError(told, f"give it the permission, or check {cluster.settings_of_login}")


def find_failure(cluster: Cluster, error: object) -> CdcError | None:
    """Translate an answer's `error` if it is about the cluster or a whole index; None if it is about the request.

    All of these states can be repaired from outside, and then the same request may succeed.
    """
    if not isinstance(error, dict):
        return None
    found: CdcError | None = None
    reason = str(error.get("reason"))
    match error.get("type"):
        case "index_closed_exception":
            found = _index_closed_error(cluster, error.get("index"))
        case "security_exception":
            found = _access_error(cluster, reason)
        case "cluster_manager_not_discovered_exception" | "master_not_discovered_exception":
            found = _no_manager_error(cluster, reason)
        case "cluster_block_exception" if block := _BLOCK.search(reason):
            found = _block_error(cluster, block)
        case "index_not_found_exception":
            remedy = "`cdc follow` fills it again from the lake by itself"
            found = CopyLostError(f"OpenSearch {cluster}: {reason}", remedy)
    return found


def _block_error(cluster: Cluster, block: re.Match[str]) -> CdcError:
    index, number, told = block["index"], int(block["number"]), block["told"].strip()
    if number in _STARTING:
        return _no_manager_error(cluster, told)
    if number == _CLOSED:
        return _index_closed_error(cluster, index)
    if number == _FLOODED:
        return PreconditionError(
            f"OpenSearch {cluster}: index {index} is read-only, since a disk is nearly full: {told}",
            "make room there: OpenSearch then lifts the block by itself",
        )
    if index and number in _INDEX_BLOCKS:
        return PreconditionError(
            f"OpenSearch {cluster}: index {index} is blocked: {told}",
            f'lift the block: PUT /{index}/_settings {{"{_INDEX_BLOCKS[number]}": null}}',
        )
    if number in _CLUSTER_BLOCKS:
        return PreconditionError(
            f"OpenSearch {cluster} is blocked: {told}",
            f'lift the block: PUT /_cluster/settings {{"persistent": {{"{_CLUSTER_BLOCKS[number]}": null}}}}',
        )
    return PreconditionError(f"OpenSearch {cluster}: {index or 'the cluster'} is blocked: {told}", "lift the block")


def _index_closed_error(cluster: Cluster, index: object) -> PreconditionError:
    return PreconditionError(f"OpenSearch {cluster}: index {index} is closed", f"open it: POST /{index}/_open")


def _no_manager_error(cluster: Cluster, reason: str) -> UnreachableError:
    told = f"OpenSearch {cluster} has no cluster manager yet: {reason}"
    return UnreachableError(told, "start its other nodes, or see their logs")


def transient_error(cluster: Cluster, status: int | str, reason: str) -> UnreachableError:
    """The error of a request that may succeed later, by its status."""
    if status == BUSY:
        remedy = "try again; if it stays so, give its nodes more memory, or add some"
        return UnreachableError(f"OpenSearch {cluster} has too much to do: {reason}", remedy)
    return unreachable_error(cluster, reason)


def unreachable_error(cluster: Cluster, reason: str) -> UnreachableError:
    return UnreachableError(f"OpenSearch {cluster} does not answer: {reason}", "check its url; is it running?")


def is_transient(status: int | str) -> bool:
    """May the same request succeed later, by this status?"""
    return isinstance(status, int) and (status == BUSY or status >= SERVER_FAULT)


def describe_error(error: TransportError) -> str:
    """Describe the error in one line."""
    if isinstance(error, ConnectionError):
        cause = error.args[2] if len(error.args) > 2 else error
        # urllib3 begins with an object and its address in memory
        return re.sub(r"^.*>: ", "", str(cause)).splitlines()[0]
    body = error.info if isinstance(error.info, dict) else {}
    return read_reason(body.get("error")) or str(error.error)


def describe_refusal(error: object) -> str:
    """Describe why a document is refused; only the types of the causes, since their reasons quote values."""
    if not isinstance(error, dict):
        return str(error or "")
    told = [_VALUES.sub("", str(error.get("reason") or error.get("type"))).strip()]
    while isinstance(error := error.get("caused_by"), dict):
        told.append(str(error.get("type")))
    return ": ".join(told)


def read_reason(error: object) -> str:
    """Read the reason of an answer's `error`, with the innermost cause last."""
    if not isinstance(error, dict):
        return str(error or "")
    reasons = [str(error.get("reason") or error.get("type"))]
    while isinstance(error := error.get("caused_by"), dict):
        reasons.append(str(error.get("reason") or error.get("type")))
    # without duplicates: OpenSearch repeats the reason of a cause in the exception around it
    return ": ".join(dict.fromkeys(_VALUES.sub("", reason).strip() for reason in reasons))
