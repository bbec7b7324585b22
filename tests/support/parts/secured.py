"""Further listeners of the shared Kafka and Connect, with TLS and every login: they cost next to nothing."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from filelock import FileLock

from cdc.local.launch_context import LaunchContext
from cdc.local.servers import connect_worker, kafka_broker
from cdc.local.state_dir import Home
from cdc.log.logins import TOKEN_URLS
from tests.support.parts.authority import AUDIENCE, STORE_WORD, Authority
from tests.support.parts.ports import server_ports

PLAIN_USER = "plain"
_SECURITY = "org.apache.kafka.common.security"


class SecuredPorts(msgspec.Struct, frozen=True):
    """`certified`: Kafka with client certificates, `login`: with SASL over TLS; `plain_password`: of PLAIN_USER."""

    certified: int
    login: int
    connect: int
    tokens: int
    plain_password: str


@dataclass(frozen=True)
class Secured:
    """Where the shared parts listen with TLS."""

    folder: Path

    @property
    def authority(self) -> Authority:
        return Authority(self.folder)

    @property
    def ports(self) -> SecuredPorts:
        return msgspec.json.decode((self.folder / "ports.json").read_bytes(), type=SecuredPorts)

    @property
    def token_url(self) -> str:
        """Where the brokers and workers are told that tokens are given out; a test listens there."""
        return f"https://localhost:{self.ports.tokens}/token"

    def make(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "lock"):
            self.authority.make()
            if not (file := self.folder / "ports.json").exists():
                file.write_bytes(msgspec.json.encode(_choose()))


def _choose() -> SecuredPorts:
    certified, login, connect, tokens = server_ports(4)
    return SecuredPorts(certified, login, connect, tokens, secrets.token_hex(12))


def secured_of(home: Home) -> Secured:
    return Secured(home.path.parent / "secured")


@contextmanager
def further_listeners(home: Home) -> Iterator[None]:
    """Parts that are started within the context have them."""
    secured = secured_of(home)
    secured.make()
    broker, worker = kafka_broker.broker_settings, connect_worker.worker_settings

    def of_broker(site: LaunchContext, data: Path) -> dict[str, object]:
        return _broker(secured, broker(site, data))

    def of_worker(site: LaunchContext) -> dict[str, object]:
        return _worker(secured, worker(site))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kafka_broker, "broker_settings", of_broker)
        patched.setattr(connect_worker, "worker_settings", of_worker)
        urls = f"-D{TOKEN_URLS}={secured.authority.jwks.as_uri()},{secured.token_url}"
        patched.setenv("JDK_JAVA_OPTIONS", f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {urls}".strip())
        yield


def _broker(secured: Secured, settings: dict[str, object]) -> dict[str, object]:
    ports, own = secured.ports, secured.authority
    further = f"TLS://127.0.0.1:{ports.certified},LOGIN://127.0.0.1:{ports.login}"
    login, token = "listener.name.login", "listener.name.login.oauthbearer.sasl"
    return {
        **settings,
        "listeners": f"{settings['listeners']},{further}",
        "advertised.listeners": f"{settings['advertised.listeners']},{further}",
        "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},TLS:SSL,LOGIN:SASL_SSL",
        **_tls("ssl", own),
        "listener.name.tls.ssl.client.auth": "required",
        f"{login}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{login}.plain.sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required"
        f' user_{PLAIN_USER}="{ports.plain_password}";',
        **{f"{login}.{each}.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;" for each in _SCRAM},
        f"{token}.jaas.config": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
        f"{token}.server.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{token}.oauthbearer.jwks.endpoint.url": own.jwks.as_uri(),
        f"{token}.oauthbearer.expected.audience": AUDIENCE,
    }


_SCRAM = ("scram-sha-256", "scram-sha-512")


def _worker(secured: Secured, settings: dict[str, object]) -> dict[str, object]:
    return {
        **settings,
        "listeners": f"{settings['listeners']},https://127.0.0.1:{secured.ports.connect}",
        "rest.advertised.listener": "http",
        **_tls("listeners.https.ssl", secured.authority),
        "listeners.https.ssl.client.auth": "required",
    }


def _tls(prefix: str, own: Authority) -> dict[str, object]:
    return {
        f"{prefix}.keystore.type": "PKCS12",
        f"{prefix}.keystore.location": own.keystore,
        f"{prefix}.keystore.password": STORE_WORD,
        f"{prefix}.key.password": STORE_WORD,
        f"{prefix}.truststore.type": "PKCS12",
        f"{prefix}.truststore.location": own.truststore,
        f"{prefix}.truststore.password": STORE_WORD,
    }
