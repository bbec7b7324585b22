"""What the settings of an HTTP server may be together: a URL, a login, and files of TLS."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cdc.core.settings import Finding


def find_wrong_access(values: Mapping[str, Any]) -> Iterator[Finding]:
    """What cannot be together, by the settings' names in their block."""
    if (values["username"] is None) != (values["password"] is None):
        missing = "password" if values["password"] is None else "username"
        yield (missing,), "is required: a user and a password go together"
    if values["username"] is not None and "@" in values["url"]:
        yield ("username",), "is in the URL as well: one of both"
    if bool(values["certificate_file"]) != bool(values["key_file"]):
        missing = "key_file" if values["certificate_file"] else "certificate_file"
        yield (missing,), "is required: a certificate and its key go together"
    for name in ("ca_file", "certificate_file", "key_file"):
        if values[name] and not values["url"].startswith("https:"):
            yield (name,), "is of TLS: name the server with https://"
        elif values[name] and not Path(values[name]).is_file():
            yield (name,), "names no file"
