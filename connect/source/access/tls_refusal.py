"""Why there is no session of TLS with the source: libpq says no more than that a certificate is refused."""

import re
import socket
import ssl
import struct
from typing import Final

from cdc.connect.settings import SourceSettings
from cdc.connect.source_login import VERIFYING

TLS_REQUEST: Final = struct.pack(">ii", 8, 80877103)
"""The first packet of a session with TLS (manual, "SSLRequest"); the server answers `S` or `N`."""
REMEDY: Final = "check the server's certificate and source.sslrootcert, source.sslcert and source.sslkey"
_OF_TLS: Final = re.compile(r"SSL error|certificate|private key|channel binding", re.IGNORECASE)
_SAID_BY_SERVER: Final = re.compile(r"\w:  \S")
"""libpq writes a server's message behind its severity, whatever the language: `FATAL:  …`."""


def is_of_tls(refusal: str) -> bool:
    """Is it TLS, by libpq's own words, that keeps a session from being opened?"""
    return _OF_TLS.search(refusal) is not None and _SAID_BY_SERVER.search(refusal) is None


def find_distrust(source: SourceSettings) -> str | None:
    """What is wrong with the certificate that the server shows; None if nothing is, or nobody asks."""
    if source.sslmode not in VERIFYING or not source.sslrootcert:
        return None
    for host in source.host.split(","):
        try:
            _shake_hands(source, host)
        except ssl.SSLCertVerificationError as error:
            return f"{error.verify_message.rstrip('.')}"
        except OSError:
            continue
    return None


def _shake_hands(source: SourceSettings, host: str) -> None:
    context = ssl.create_default_context(cafile=source.sslrootcert)
    context.check_hostname = source.sslmode == "verify-full"
    with socket.create_connection((host, source.port), timeout=source.connect_timeout_seconds) as channel:
        channel.sendall(TLS_REQUEST)
        if channel.recv(1) == b"S":
            context.wrap_socket(channel, server_hostname=host).close()
