"""Whom our HTTPS clients believe: whom the system believes, and the files that the environment names."""

import os
import ssl
from contextlib import suppress
from functools import cache
from pathlib import Path

import certifi
import truststore

VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""What curl, pip and requests read, too: files of certificates, or folders of them."""

REMEDY = f"put its authority into the system's certificate store, or name its file in {VARIABLES[0]}"


def tls_context() -> ssl.SSLContext:
    """What a client of ours is given to verify servers with.

    The system's store comes first, where a company's own authority is; certifi's list is for systems that have none.
    Not injected into `ssl` for everybody: where a `ca_file` is configured, that one alone is to be believed.
    """
    named = (certifi.where(), *map(os.environ.get, VARIABLES))
    return _make_context(tuple(dict.fromkeys(filter(None, named))))


@cache
def _make_context(files: tuple[str, ...]) -> ssl.SSLContext:
    """Made once: a list as long as certifi's takes 20 ms."""
    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for named in files:
        # a variable that leads nowhere is for the handshake to tell, if there is one
        with suppress(OSError):
            _load(context, named)
    return context


def distrust(error: BaseException) -> str | None:
    """Why a server's certificate was not believed, where that is what `error` comes from."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause.verify_message if cause else None


def _load(context: ssl.SSLContext, named: str) -> None:
    if Path(named).is_dir():
        context.load_verify_locations(capath=named)
    else:
        context.load_verify_locations(cafile=named)
