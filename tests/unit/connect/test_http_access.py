"""What the settings of Connect's REST interface and of a search cluster may be together."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cdc.connect.settings import CaptureSettings
from cdc.sinks.search.settings import SearchSettings

PAIR = {"username": "u", "password": "p"}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"username": "u"}, "a user and a password go together"),
        ({**PAIR, "url": "https://a:b@c"}, "is in the URL as well"),
        ({"certificate_file": "own"}, "a certificate and its key go together"),
        ({"ca_file": "own", "url": "http://c"}, "is of TLS: name the server with https://"),
        ({"ca_file": "nowhere"}, "names no file"),
    ],
)
@pytest.mark.parametrize("kind", ["connect", "search"])
def test_what_does_not_fit_is_refused(kind: str, values: dict[str, Any], why: str, tmp_path: Path) -> None:
    (tmp_path / "own").touch()
    files = {name: str(tmp_path / file) for name, file in values.items() if name.endswith("_file")}
    given = {"url": "https://c", **values, **files}
    with pytest.raises(ValidationError, match=why):
        CaptureSettings(**given) if kind == "connect" else SearchSettings(kind="search", **given)


def test_a_cluster_has_one_login() -> None:
    given: dict[str, Any] = {**PAIR, "api_key": "k", "aws": {"region": "r"}}
    with pytest.raises(ValidationError, match="is a second login, beside username"):
        SearchSettings(kind="search", url="https://c", **given)
    with pytest.raises(ValidationError, match="access_key_id and secret_access_key go together"):
        SearchSettings(kind="search", url="https://c", aws={"region": "r", "access_key_id": "k"})


def test_the_connectors_clients_reach_one_listener() -> None:
    overrides = {f"{client}.override.bootstrap.servers": "k:1" for client in ("admin", "consumer", "producer")}
    assert CaptureSettings(url="http://c", overrides=overrides).overrides == overrides
    with pytest.raises(ValidationError, match="takes one address of brokers for all of"):
        CaptureSettings(url="http://c", overrides={**overrides, "admin.override.bootstrap.servers": "other:1"})
