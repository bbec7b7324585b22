"""Logins at Connect's REST interface, and at OpenSearch behind what lets its clients in."""

import secrets
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.rest_access import RestAccess
from cdc.connect.settings import CaptureSettings
from cdc.core.errors import PreconditionError
from cdc.local.endpoints import CONNECT_USER
from cdc.local.state.passwords import password
from cdc.secrets import RenewableSecret
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.settings import AwsSettings
from cdc.sinks.search.settings import SearchSettings
from tests.servers.logins.gateway import ACCESS_KEY, REGION, USER, Gateway
from tests.support.parts.authority import Identity
from tests.support.parts.secured import Secured
from tests.support.parts.servers_fixture import Servers


@pytest.fixture(scope="module")
def identity(secured: Secured) -> Identity:
    return secured.authority.issue("http-client")


def files_of(secured: Secured, identity: Identity) -> dict[str, str]:
    own = {"certificate_file": str(identity.certificate), "key_file": str(identity.key)}
    return {"ca_file": str(secured.authority.ca), **own}


def rest(secured: Secured, secret: SecretStr, **files: Any) -> ConnectClient:
    url = f"https://localhost:{secured.ports.connect}"
    settings = CaptureSettings(url=url, username=CONNECT_USER, password=secret, **files)
    return ConnectClient(settings.url, RestAccess.of(settings))


def test_connect_lets_a_certificate_with_a_login_in(secured: Secured, identity: Identity, servers: Servers) -> None:
    assert servers.home
    right, files = password(servers.home, CONNECT_USER).read(), files_of(secured, identity)
    rotated = RenewableSecret("of yesterday", lambda: right)
    with rest(secured, rotated, **files) as client:
        assert client.worker().version
    assert rotated.get_secret_value() == right
    told = pytest.raises(PreconditionError, match=r"lets nobody in.*connect\.username and connect\.password")
    with rest(secured, SecretStr("wrong"), **files) as client, told:
        client.worker()


@pytest.mark.parametrize(
    ("without", "why"),
    [
        (("certificate_file", "key_file"), r"ends the session of TLS.*connect\.certificate_file"),
        (("ca_file",), r"is not trusted.*connect\.ca_file"),
    ],
)
def test_connect_that_refuses_or_is_refused_is_told(
    without: tuple[str, ...], why: str, secured: Secured, identity: Identity
) -> None:
    files = {name: file for name, file in files_of(secured, identity).items() if name not in without}
    with rest(secured, SecretStr("x"), **files) as client, pytest.raises(PreconditionError, match=why):
        client.worker()


LOGINS: dict[str, dict[str, Any]] = {
    "Basic": {"username": USER, "password": SecretStr("first")},
    "ApiKey": {"api_key": SecretStr("first")},
    "AWS4-HMAC-SHA256": {
        "aws": AwsSettings(region=REGION, access_key_id=SecretStr(ACCESS_KEY), secret_access_key=SecretStr("first"))
    },
}


def cluster_of(gateway: Gateway, files: dict[str, str], **login: Any) -> Cluster:
    return Cluster.of(SearchSettings(kind="search", url=gateway.url, prefix="x", **files, **login))


@pytest.mark.parametrize("login", LOGINS)
def test_opensearch_lets_each_login_in(
    login: str, gateway: Gateway, secured: Secured, identity: Identity, spark: SparkSession
) -> None:
    cluster, index = cluster_of(gateway, files_of(secured, identity), **LOGINS[login]), f"l-{secrets.token_hex(4)}"
    gateway.asked.clear()

    def put(number: int) -> bool:
        # as a writer in Spark's workers does, with what was sent to it
        with open_client(cluster) as client:
            return bool(client.index(index=index, id=str(number), body={"größe": number}, params={"refresh": "true"}))

    assert spark.sparkContext.parallelize([1, 2], 2).map(put).collect() == [True, True]
    with open_client(cluster) as client:
        found = client.search(
            index=index, body={"query": {"query_string": {"query": "größe:2"}}}, params={"q": "größe:>0"}
        )
        assert found["hits"]["total"]["value"] >= 1
        client.indices.delete(index=index)
    assert set(gateway.asked) == {login}
    assert len(gateway.asked) >= 4


def test_an_api_key_that_has_changed_is_asked_for_again(
    gateway: Gateway, secured: Secured, identity: Identity, tmp_path: Path
) -> None:
    secret = tmp_path / "key"
    secret.write_text("first")
    key = RenewableSecret("first", secret.read_text)
    with open_client(cluster_of(gateway, files_of(secured, identity), api_key=key)) as client:
        assert client.info()["version"]
        gateway.secret = "second"
        try:
            told = pytest.raises(PreconditionError, match=r"does not let this API key in.*check api_key")
            with told, open_client(cluster_of(gateway, files_of(secured, identity), api_key=key)) as other:
                other.info()
            secret.write_text("second")
            # the same client, which lives as long as a follower does
            assert client.info()["version"]
        finally:
            gateway.secret = "first"


@pytest.mark.parametrize("without", ["certificate_file", "ca_file"])
def test_opensearch_that_refuses_or_is_refused_is_told(
    without: str, gateway: Gateway, secured: Secured, identity: Identity
) -> None:
    both = {without, "key_file"} if without == "certificate_file" else {without}
    files = {name: file for name, file in files_of(secured, identity).items() if name not in both}
    told = pytest.raises(PreconditionError, match=r"no session of TLS.*ca_file.*certificate_file")
    with told, open_client(cluster_of(gateway, files, **LOGINS["ApiKey"])) as client:
        client.info()
