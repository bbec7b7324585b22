"""The certificates that our HTTPS clients trust: the system's, and those in files named by the environment."""

import os
import ssl
from contextlib import suppress
from functools import cache
from pathlib import Path

import certifi
import truststore

VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables that curl, pip and requests read, too: a file or a folder of certificates."""

REMEDY = f"put its authority into the system's certificate store, or name its file in {VARIABLES[0]}"


def tls_context() -> ssl.SSLContext:
    """Make the TLS context of our clients.

    The system's store comes first, since it has a company's own authority; certifi's list is for systems without one.
    It is not injected into `ssl` globally: a configured `ca_file` must be the only trusted one.
    """
    # equal tuples share one context: loading certifi's list takes 20 ms
    return _share_context(_list_trusted())


def own_tls_context() -> ssl.SSLContext:
    """The same for one client alone, who may load a certificate of its own into it."""
    return _make_context(_list_trusted())


def _list_trusted() -> tuple[str, ...]:
    named = (certifi.where(), *map(os.environ.get, VARIABLES))
    # without empty and double names
    return tuple(dict.fromkeys(filter(None, named)))


@cache
def _share_context(files: tuple[str, ...]) -> ssl.SSLContext:
    return _make_context(files)


def _make_context(files: tuple[str, ...]) -> ssl.SSLContext:
    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for named in files:
        # a missing file is no error here: the handshake fails if it was needed
        with suppress(OSError):
            _load(context, named)
    return context


def distrust(error: BaseException) -> str | None:
    """The reason why a certificate was not trusted, if that caused `error`; else None."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        # HTTP clients raise their own errors from that of ssl
        cause = cause.__cause__ or cause.__context__
    return cause.verify_message if cause else None


def _load(context: ssl.SSLContext, named: str) -> None:
    if Path(named).is_dir():
        # ssl reads a folder only as `capath`, and a file only as `cafile`
        context.load_verify_locations(capath=named)
    else:
        context.load_verify_locations(cafile=named)
