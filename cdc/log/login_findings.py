"""What the settings of a login at Kafka may be together, so that librdkafka and Kafka's Java clients can both do it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cdc.core.settings import Finding

_BY_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PKCS8: Final = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")


def find_wrong_logins(values: Mapping[str, Any]) -> Iterator[Finding]:
    """What cannot be together, by the settings' names in the `log` block."""
    yield from _find_wrong_sasl(values)
    for name in ("ca_file", "certificate_file", "key_file"):
        if values[name] and "SSL" not in values["security_protocol"]:
            yield (name,), "is of TLS: set security_protocol to SSL or SASL_SSL"
    if bool(values["certificate_file"]) != bool(values["key_file"]):
        missing = "key_file" if values["certificate_file"] else "certificate_file"
        yield (missing,), "is required: a certificate and its key go together"
    if values["key_file"] and (why := _find_unreadable(values["key_file"], values["key_password"] is not None)):
        yield ("key_file",), why


def _find_wrong_sasl(values: Mapping[str, Any]) -> Iterator[Finding]:
    protocol, mechanism = values["security_protocol"], values["sasl_mechanism"]
    if bool(mechanism) != ("SASL" in protocol):
        where, other = ("security_protocol", "sasl_mechanism") if mechanism else ("sasl_mechanism", "security_protocol")
        yield (where,), f"does not fit {other}: SASL_SSL and SASL_PLAINTEXT have a mechanism, the others have none"
    if mechanism in _BY_PASSWORD:
        for name in ("username", "password"):
            if values[name] is None:
                yield (name,), f"is required for {mechanism}"
    if (mechanism == "OAUTHBEARER") != (values["oauth"] is not None):
        yield ("oauth",), "is required for OAUTHBEARER, and used for nothing else"


def _find_unreadable(file: str, has_password: bool) -> str | None:
    try:
        text = Path(file).read_text(encoding="ascii")
    except OSError as error:
        return f"cannot be read: {(error.strerror or 'error').lower()}"
    except ValueError:
        return "is not PEM"
    if not any(head in text for head in _PKCS8):
        return "is not PKCS #8, and Kafka's Java clients read no other: openssl pkcs8 -topk8 -nocrypt -in KEY -out KEY8"
    if "ENCRYPTED" in text and not has_password:
        return "is encrypted: set key_password"
    return None
