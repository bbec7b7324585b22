"""One pipeline with TLS and a login on every hop: copied, followed, verified, and no secret that rotates stops it."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession
from ruamel.yaml import YAML

from cdc.local.endpoints import CONNECT_USER
from cdc.local.state.passwords import password
from cdc.log.logins import java_options
from cdc.log.settings import LogSettings
from cdc.secrets import reveal
from tests.servers.logins.conftest import Scram, TlsSource, at
from tests.servers.logins.gateway import Gateway
from tests.servers.logins.kafka_logins import by_password, by_token
from tests.servers.logins.token_server import CLIENT, SCOPE, TokenServer
from tests.support.cdc_inprocess import bootstrap, catch_up, following, verify
from tests.support.parts.authority import STORE_WORD
from tests.support.parts.pipelines import END_SENDERS, Pipeline, pipelines
from tests.support.parts.removal import remove_traces
from tests.support.parts.secured import PLAIN_USER, Secured
from tests.support.parts.servers_fixture import Servers

pytestmark = pytest.mark.timeout(600)
ROLE = f"r{secrets.token_hex(4)}"
TABLE = "CREATE TABLE things (id int PRIMARY KEY, name text)"


@pytest.fixture
def pipeline(servers: Servers, tls_source: TlsSource, tmp_path: Path, quicker: None) -> Iterator[Pipeline]:
    # not beside the next tests: the source ends with this room
    with pipelines(at(servers, tls_source), tmp_path, remove_traces) as make:
        made = make(TABLE, tables=("public.things",))
        plain = made.config.read_text()
        yield made
        # who takes away what it left has no certificate
        made.config.write_text(plain)


def set_logins(pipeline: Pipeline, secured: Secured, gateway: Gateway) -> None:
    """Put a login on every hop into the configuration file."""
    yaml, own = YAML(), secured.authority
    whole: Any = yaml.load(pipeline.config.read_text())
    client = own.issue("pipeline")
    files = {"ca_file": str(own.ca), "certificate_file": str(client.certificate), "key_file": str(client.key)}
    whole["source"] |= {"user": ROLE, "password": "${exec:cat secret}", "channel_binding": "require"}
    whole["source"] |= {"sslmode": "verify-full", "sslrootcert": str(own.ca)}
    oauth = {"token_url": secured.token_url, "client_id": CLIENT, "client_secret": "${file:token}", "scope": SCOPE}
    whole["log"] |= {
        "bootstrap": f"127.0.0.1:{secured.ports.login}",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "oauth": oauth | {"ca_file": str(own.ca)},
        "ca_file": str(own.ca),
    }
    assert pipeline.servers.home
    whole["connect"] |= {
        "url": f"https://localhost:{secured.ports.connect}",
        "username": CONNECT_USER,
        "password": f"${{file:{password(pipeline.servers.home, CONNECT_USER).file}}}",
        **files,
        "overrides": {"errors.max.retries": "0", **clients_of_connector(secured)},
    }
    whole["followers"]["search"] |= {"url": gateway.url, "api_key": "${file:key}", **files}
    with pipeline.config.open("w") as file:
        yaml.dump(whole, file)


def clients_of_connector(secured: Secured) -> dict[str, str]:
    """The overrides by which the connector's own clients reach another listener than the worker does."""
    own = secured.authority
    options = {
        "bootstrap.servers": f"127.0.0.1:{secured.ports.certified}",
        "security.protocol": "SSL",
        "ssl.truststore.location": str(own.truststore),
        "ssl.truststore.password": STORE_WORD,
        "ssl.keystore.location": str(own.keystore),
        "ssl.keystore.password": STORE_WORD,
    }
    return {
        f"{client}.override.{name}": value
        for client in ("producer", "consumer", "admin")
        for name, value in options.items()
    }


@pytest.fixture
def logins(secured: Secured, scram: Scram, tokens: TokenServer) -> dict[str, LogSettings]:
    """Another login for each of the connector's clients."""
    user, word = f"s{secrets.token_hex(4)}", secrets.token_hex(8)
    scram.set_password(user, word)
    return {
        "producer": by_password(secured, "SCRAM-SHA-512", user, SecretStr(word)),
        "consumer": by_password(secured, "PLAIN", PLAIN_USER, SecretStr(secured.ports.plain_password)),
        "admin": by_token(secured, SecretStr(tokens.secret)),
    }


def let_connector_log_in(pipeline: Pipeline, logins: dict[str, LogSettings]) -> None:
    """Give the connector's clients these logins in place of their certificate."""
    yaml = YAML()
    whole: Any = yaml.load(pipeline.config.read_text())
    whole["connect"]["overrides"] = {"errors.max.retries": "0"} | {
        f"{client}.override.{name}": value
        for client, log in logins.items()
        for name, value in {"bootstrap.servers": log.bootstrap, **java_options(log)}.items()
    }
    with pipeline.config.open("w") as file:
        yaml.dump(whole, file)


def test_every_hop_has_its_login_and_goes_on_after_a_rotation(
    pipeline: Pipeline,
    secured: Secured,
    tokens: TokenServer,
    gateway: Gateway,
    logins: dict[str, LogSettings],
    spark: SparkSession,
) -> None:
    words = [f"canary{secrets.token_hex(6)}" for _ in range(2)]
    secret = pipeline.config.parent / "secret"
    for name, text in (("secret", words[0]), ("token", tokens.secret), ("key", gateway.secret)):
        (pipeline.config.parent / name).write_text(text)
        (pipeline.config.parent / name).chmod(0o600)
    pipeline.run(f"CREATE ROLE {ROLE} SUPERUSER REPLICATION LOGIN PASSWORD '{words[0]}'")
    pipeline.run("INSERT INTO things SELECT n, 'copied' FROM generate_series(1, 100) n")
    set_logins(pipeline, secured, gateway)
    assert set(bootstrap(pipeline, spark).copied.values()) == {100}
    pipeline.run("INSERT INTO things SELECT n, 'followed' FROM generate_series(101, 200) n")
    with following(pipeline, spark) as run:
        pipeline.run(f"ALTER ROLE {ROLE} PASSWORD '{words[1]}'")
        secret.write_text(words[1])
        # the connector logs in again, with what it was given
        pipeline.run(END_SENDERS)
        run.wait_for("has another password")
        pipeline.run("INSERT INTO things SELECT n, 'behind the rotation' FROM generate_series(201, 300) n")
    catch_up(pipeline, spark)
    report = verify(pipeline, spark)
    assert report.is_equal, report.as_json()
    assert reveal(pipeline.settings.source.password) == words[1]
    assert [line for line in run.said for word in words if word in line] == []
    let_connector_log_in(pipeline, logins)
    bootstrap(pipeline, spark)
    pipeline.run("INSERT INTO things SELECT n, 'by other logins' FROM generate_series(301, 400) n")
    catch_up(pipeline, spark)
    assert (verify(pipeline, spark).is_equal, {*tokens.asked}) == (True, {SCOPE})
