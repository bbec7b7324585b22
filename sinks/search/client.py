"""The way to an OpenSearch cluster: plain values that can be sent to executors, and its failures as ours."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from opensearchpy import OpenSearch
from opensearchpy.exceptions import (
    AuthenticationException,
    AuthorizationException,
    ConnectionError,
    SSLError,
    TransportError,
)

from cdc.core.errors import CdcError, PreconditionError, UnreachableError

TIMEOUT_SECONDS = 60
CONNECTIONS = 4
"""So many requests at once keep their connections."""
BUSY = 429
SERVER_FAULT = 500
_VALUES = re.compile(r" in document with id '.*?'|\. Preview of field's value: .*", re.DOTALL)

logging.getLogger("opensearch").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a cluster is and how one signs in."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


@contextmanager
def opened(cluster: Cluster, **options: Any) -> Iterator[OpenSearch]:
    """A client of the cluster; nothing is sent before its first request, and nothing is sent twice by itself."""
    if cluster.ca_file:
        options["ca_certs"] = cluster.ca_file
    if cluster.username is not None:
        options["http_auth"] = (cluster.username, cluster.password or "")
    client = OpenSearch(
        hosts=[cluster.url], timeout=TIMEOUT_SECONDS, max_retries=0, pool_maxsize=CONNECTIONS, **options
    )
    try:
        yield client
    finally:
        client.close()


@contextmanager
def reached(cluster: Cluster, **options: Any) -> Iterator[OpenSearch]:
    """A client whose failures are raised as CdcError: unreachable where trying again later is sensible."""
    try:
        with opened(cluster, **options) as client:
            yield client
    except TransportError as error:
        raise as_ours(cluster, error) from error


def as_ours(cluster: Cluster, error: TransportError) -> CdcError:
    """The failure of one request as one line with a remedy."""
    match error:
        case SSLError():
            return PreconditionError(f"OpenSearch {cluster} is not trusted: {line_of(error)}", "check url and ca_file")
        case ConnectionError():
            return unreachable(cluster, line_of(error))
        case AuthenticationException() | AuthorizationException():
            return PreconditionError(
                f"OpenSearch {cluster} does not let user {cluster.username} do this", "check username and password"
            )
    if is_passing(error.status_code):
        return unreachable(cluster, line_of(error))
    return PreconditionError(f"OpenSearch {cluster} refused a request: {line_of(error)}", "see the cluster's log")


def unreachable(cluster: Cluster, reason: str) -> UnreachableError:
    return UnreachableError(f"OpenSearch {cluster} does not answer: {reason}", "check its url; is it running?")


def is_passing(status: int | str) -> bool:
    """Does this status mean that the same request may succeed later?"""
    return isinstance(status, int) and (status == BUSY or status >= SERVER_FAULT)


def line_of(error: TransportError) -> str:
    """What went wrong, in one line."""
    if isinstance(error, ConnectionError):
        cause = error.args[2] if len(error.args) > 2 else error
        return re.sub(r"^.*>: ", "", str(cause)).splitlines()[0]
    body = error.info if isinstance(error.info, dict) else {}
    return reason_of(body.get("error")) or str(error.error)


def reason_of(error: object) -> str:
    """The reason in an answer's `error`, innermost cause last, without values of documents."""
    if not isinstance(error, dict):
        return str(error or "")
    reasons = [str(error.get("reason") or error.get("type"))]
    while isinstance(error := error.get("caused_by"), dict):
        reasons.append(str(error.get("reason") or error.get("type")))
    return ": ".join(_VALUES.sub("", reason).strip() for reason in reasons)
