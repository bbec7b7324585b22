"""Logins at Postgres, by each client of the source: libpq's, asyncpg, and the JDBC driver in Debezium."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.debezium_properties import _source
from cdc.connect.fixed_properties import CONNECTOR_CLASS
from cdc.connect.settings import CaptureSettings, SourceSettings
from cdc.connect.source.access.connection import RefusedLoginError, connect, conninfo, read_timeline
from cdc.core.errors import PreconditionError
from cdc.run.doctor.asking import SilentPartError
from cdc.run.doctor.facts.access import find_access
from cdc.secrets import RenewableSecret
from cdc.snapshots.copy_reader import _blocks
from tests.servers.logins.conftest import CERTIFIED, TlsSource
from tests.support.parts.servers_fixture import Servers

NOBODY = "127.0.0.9"
"""An address of this machine where no Postgres listens."""


def settings_of(source: TlsSource, **further: Any) -> SourceSettings:
    values = {
        "host": source.host,
        "port": source.port,
        "dbname": "postgres",
        "user": "postgres",
        "password": SecretStr(source.password),
        "sslmode": "verify-full",
        "sslrootcert": str(source.authority.ca),
        "tables": ["public.things"],
        **further,
    }
    return SourceSettings(**values)


def certified(source: TlsSource, **further: Any) -> SourceSettings:
    files = {"sslcert": str(source.certified.certificate), "sslkey": str(source.certified.key)}
    return settings_of(source, user=CERTIFIED, password=SecretStr(""), **files | further)


LOGINS: dict[str, Callable[[TlsSource], SourceSettings]] = {
    "verified": settings_of,
    "certificate": certified,
    "bound": lambda source: settings_of(source, channel_binding="require"),
    "several": lambda source: settings_of(
        source, host=f"{NOBODY},{source.host}", target_session_attrs="read-write", connect_timeout_seconds=3
    ),
}


@pytest.mark.parametrize("login", LOGINS)
def test_every_client_of_ours_logs_in(login: str, tls_source: TlsSource, capfd: pytest.CaptureFixture[str]) -> None:
    settings = LOGINS[login](tls_source)
    asked = conninfo(settings)
    with connect(settings) as session:
        assert session.pgconn.ssl_in_use
        assert read_timeline(settings).timeline == 1
        # as the readers of a copy do, in Spark's workers and here
        session.autocommit = False
        session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        snapshot = session.execute("SELECT pg_export_snapshot()").fetchone()
        assert snapshot
        query = "SELECT ssl, usename FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE pid = pg_backend_pid()"
        copied = b"".join(part for parts in _blocks(asked, snapshot[0], query) for part in parts)
        # two fields: a byte that is true, and the role
        assert copied == b"\0\2\0\0\0\1\1" + len(settings.user).to_bytes(4, "big") + settings.user.encode()
    # libpq says on stderr what it thinks of a password file
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("login", ["verified", "certificate", "bound"])
def test_debezium_logs_in(login: str, tls_source: TlsSource, servers: Servers) -> None:
    assert problems_of(LOGINS[login](tls_source), servers) == []


def problems_of(settings: SourceSettings, servers: Servers) -> list[str]:
    """What Debezium says of a connector of these settings: it logs in to find out."""
    properties = _source(settings, CaptureSettings(url="http://x"))
    named = {"name": "of-a-test", "connector.class": CONNECTOR_CLASS, "topic.prefix": "t", "plugin.name": "pgoutput"}
    with ConnectClient(load_url(servers)) as client:
        return client.problems({**properties, **named, "slot.name": "never_made"})


def load_url(servers: Servers) -> str:
    from cdc.local.services import endpoints

    assert servers.home
    return endpoints(servers.home).connect_login


def test_debezium_binds_its_login_to_the_channel(tls_source: TlsSource, servers: Servers) -> None:
    unbound = LOGINS["bound"](tls_source).model_copy(update={"sslmode": "disable"})
    assert any("channel binding" in each.lower() for each in problems_of(unbound, servers))


def test_a_password_that_has_changed_is_asked_for_again(tls_source: TlsSource, tmp_path: Path) -> None:
    secret, role = tmp_path / "secret", "rotating"
    secret.write_text("first")
    tls_source.run("CREATE ROLE {} SUPERUSER REPLICATION LOGIN PASSWORD 'first'", role)
    password = RenewableSecret("first", secret.read_text)
    settings = settings_of(tls_source, user=role, password=password, channel_binding="require")
    connect(settings).close()
    tls_source.run("ALTER ROLE {} PASSWORD 'second'", role)
    with pytest.raises(RefusedLoginError):
        connect(settings)
    secret.write_text("second")
    connect(settings).close()
    assert password.get_secret_value() == "second"


def test_debezium_takes_a_key_of_an_elliptic_curve(tls_source: TlsSource, servers: Servers) -> None:
    own = tls_source.authority.issue("elliptic", role=CERTIFIED, elliptic=True)
    files = {"sslcert": str(own.certificate), "sslkey": str(own.key)}
    assert problems_of(certified(tls_source, **files), servers) == []


@pytest.mark.parametrize("client", ["ours", "debezium"])
def test_who_is_refused_is_named(client: str, tls_source: TlsSource, servers: Servers) -> None:
    stranger = tls_source.authority.issue("stranger", role="somebody_else")
    wrong = certified(tls_source, sslcert=str(stranger.certificate), sslkey=str(stranger.key))
    if client == "debezium":
        assert any("certificate authentication failed" in each for each in problems_of(wrong, servers))
        return
    with pytest.raises(PreconditionError, match=r"certificate authentication failed.*source.user"):
        connect(wrong)


@pytest.mark.parametrize("login", ["verified", "bound"])
def test_a_wrong_password_is_told_as_one(login: str, tls_source: TlsSource) -> None:
    wrong = LOGINS[login](tls_source).model_copy(update={"password": SecretStr("wrong")})
    with pytest.raises(RefusedLoginError, match="refuses the password"):
        connect(wrong)
    absent = LOGINS[login](tls_source).model_copy(update={"dbname": "not_there"})
    with pytest.raises(PreconditionError, match=r"correct source\.dbname"):
        connect(absent)


@pytest.mark.parametrize(
    ("hosts", "days", "why"),
    [(("localhost", "127.0.0.1"), -1, "expired"), (("db.example",), 30, "mismatch")],
)
def test_a_servers_wrong_certificate_is_told(
    hosts: tuple[str, ...], days: int, why: str, tls_source: TlsSource
) -> None:
    wrong = tls_source.authority.issue("wrong", *hosts, days=days)
    tls_source.use_certificate(wrong)
    try:
        with pytest.raises(SilentPartError, match=why) as told:
            find_access(settings_of(tls_source), 5)
        assert told.value.check == "source.tls"
        assert "sslrootcert" in told.value.error.remedy or "certificate" in told.value.error.remedy
    finally:
        tls_source.use_certificate(tls_source.authority.issue("postgres", "localhost", "127.0.0.1"))
