"""Emulators of Azure's and Google's object stores, each for all tests of a run, with containers of their own."""

import base64
import hashlib
import hmac
import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from cdc.https import tls_context
from cdc.sinks.lake.cloud_settings import AzureSettings, GoogleSettings
from tests.support.parts import google_gate
from tests.support.parts.clouds import fetch_azurite, fetch_fake_gcs
from tests.support.parts.ports import server_ports
from tests.support.parts.server_process import run_server

ACCOUNT: Final = "ours"


@dataclass(frozen=True)
class AzureServer:
    """Azurite, where it answers, and the key of its account."""

    endpoint: str
    key: str

    @property
    def access(self) -> AzureSettings:
        return self.access_at(self.endpoint)

    def access_at(self, endpoint: str, key: str | None = None) -> AzureSettings:
        given = SecretStr(self.key if key is None else key)
        return AzureSettings(endpoint=endpoint, account=ACCOUNT, account_key=given, allow_http=True)

    def bucket(self) -> str:
        """Make a container; its name."""
        name = f"b{secrets.token_hex(5)}"
        headers = _sign_container(name, self.key)
        made = httpx.put(f"{self.endpoint}/{name}?restype=container", headers=headers, verify=tls_context())
        assert made.status_code == httpx.codes.CREATED, made.text
        return name


@dataclass(frozen=True)
class GoogleServer:
    """fake-gcs-server behind a gate, where that answers, and the service account's key file."""

    endpoint: str
    behind: str
    key: str

    @property
    def access(self) -> GoogleSettings:
        return self.access_at(self.endpoint)

    def access_at(self, endpoint: str, key: str | None = None) -> GoogleSettings:
        given = SecretStr(self.key if key is None else key)
        return GoogleSettings(endpoint=endpoint, service_account_key=given, allow_http=True)

    def bucket(self) -> str:
        """Make a bucket; its name."""
        name = f"b{secrets.token_hex(5)}"
        made = httpx.post(f"http://{self.behind}/storage/v1/b?project=p", json={"name": name}, verify=tls_context())
        assert made.is_success, made.text
        return name

    def tell(self, wish: str) -> list[str]:
        """Tell the gate a wish; the conditions that it was sent."""
        found: list[str] = httpx.get(f"{self.endpoint}{google_gate.CONTROL}{wish}", verify=tls_context()).json()
        return found


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """An Azurite that all tests of a run share."""
    folder, port = tmp_path_factory.mktemp("azure"), server_ports(1)[0]
    key = base64.b64encode(secrets.token_bytes(64)).decode()
    entry = fetch_azurite() / "dist/src/blob/main.js"
    options = ["--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    command = ["node", str(entry), *options, "--silent"]
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    with run_server(command, endpoint, folder / "azurite.log", {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{key}"}):
        yield AzureServer(endpoint, key)


@pytest.fixture(scope="session")
def google_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    """A fake-gcs-server, and a gate before it, that all tests of a run share."""
    folder = tmp_path_factory.mktemp("google")
    port, behind = map(str, server_ports(2))
    own, key = make_service_account()
    public = own.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "public.pem").write_bytes(public)
    host = f"127.0.0.1:{behind}"
    options = ["-scheme", "http", "-host", "127.0.0.1", "-port", behind, "-public-host", host, "-backend", "memory"]
    emulator = [str(fetch_fake_gcs()), *options, "-log-level", "error"]
    gate = [sys.executable, google_gate.__file__, port, host, str(folder / "public.pem")]
    endpoint = f"http://127.0.0.1:{port}"
    with (
        run_server(emulator, f"http://{host}", folder / "emulator.log", {}),
        run_server(gate, endpoint, folder / "gate.log", {}),
    ):
        yield GoogleServer(endpoint, host, key)


def make_service_account() -> tuple[rsa.RSAPrivateKey, str]:
    """A service account's private key, and the JSON of its file."""
    own = rsa.generate_private_key(65537, 2048)
    encoding = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = own.private_bytes(*encoding).decode()
    account = {"type": "service_account", "client_email": "cdc@p.example", "private_key_id": "1", "private_key": pem}
    return own, json.dumps(account)


def _sign_container(name: str, key: str) -> Mapping[str, str]:
    """The headers that make a container, signed by the account's key: the client of lakes makes none."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "".join(f"{header}:{value}\n" for header, value in headers.items())
    text = "PUT" + "\n" * 12 + f"{signed}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(key), text.encode(), hashlib.sha256)).decode()
    return {**headers, "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
