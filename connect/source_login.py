"""What the settings of a login on the source may be together: what one of our clients could not do is refused by name.

The clients are libpq (psycopg), asyncpg, and the JDBC driver in Debezium.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cdc.core.settings import Finding

VERIFYING: Final = ("verify-ca", "verify-full")
ENCRYPTING: Final = ("require", *VERIFYING)
JDBC_KEY: Final = "database.sslkey"
"""The override that names the key's file where Connect's workers have another one."""
_PKCS8: Final = "-----BEGIN PRIVATE KEY-----"
_ELLIPTIC: Final = bytes.fromhex("06072a8648ce3d0201")
"""The identifier id-ecPublicKey (RFC 5480), as DER has it."""
CONVERT: Final = "convert it: openssl pkcs8 -topk8 -nocrypt -in KEY -out KEY8"


def find_wrong_logins(values: Mapping[str, Any]) -> Iterator[Finding]:
    """What cannot be together, by the settings' names in the `source` block."""
    mode, bound = values["sslmode"], values["channel_binding"]
    if bound == "require" and mode not in ENCRYPTING:
        yield ("channel_binding",), "is of TLS: set sslmode to verify-full, or at least to require"
    for name in ("sslcert", "sslkey"):
        if values[name] and mode == "disable":
            yield (name,), "is not used without TLS: set sslmode to verify-full"
    if bool(values["sslcert"]) != bool(values["sslkey"]):
        yield ("sslkey" if values["sslcert"] else "sslcert",), "is required: a certificate and its key go together"
    if values["sslrootcert"] == "system":
        yield ("sslrootcert",), "is a file: asyncpg and Debezium do not know libpq's `system`; name the system's bundle"
    if values["target_session_attrs"] and "," not in values["host"]:
        yield ("target_session_attrs",), "chooses among several hosts, and host has one"
    if not (values["password"] or values["sslcert"]):
        yield ("password",), "is required, unless a passfile, a service or a certificate (sslcert) is named"


def find_unreadable_key(key: str, overrides: Mapping[str, str]) -> str | None:
    """Why not every client can read this file of a private key; None if each can.

    libpq reads any PEM, the JDBC driver PKCS #8 only, or the file that an override names.
    """
    try:
        text = Path(key).expanduser().read_text(encoding="ascii")
    except OSError as error:
        return f"cannot be read: {(error.strerror or 'error').lower()}"
    except ValueError:
        return f"is not PEM, which libpq reads; {CONVERT}, and name that of Debezium in connect.overrides: {JDBC_KEY}"
    if "ENCRYPTED" in text:
        return f"is encrypted, and nobody is there to type its password; {CONVERT}, and chmod 600 it"
    if _PKCS8 not in text and JDBC_KEY not in overrides:
        return f"is not PKCS #8, and Debezium's driver reads no other PEM; {CONVERT}"
    return None


def is_elliptic(key: str) -> bool:
    """Is it a key of an elliptic curve? The JDBC driver has to be told."""
    try:
        lines = Path(key).expanduser().read_text(encoding="ascii").splitlines()
        return _ELLIPTIC in base64.b64decode("".join(line for line in lines if not line.startswith("-")))
    except (OSError, ValueError, binascii.Error):
        return False
