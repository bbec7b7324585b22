"""The servers of this room: listeners of the shared ones, a Postgres with TLS, who gives out tokens, a gateway."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from psycopg import sql

from cdc.local.endpoints import Service
from cdc.local.servers.postgres import data_folder, server_user
from cdc.local.services import up
from cdc.local.state_dir import Home
from tests.servers.logins.gateway import Gateway
from tests.servers.logins.token_server import TokenServer
from tests.support.parts.authority import Authority, Identity
from tests.support.parts.secured import Secured, secured_of
from tests.support.parts.servers_fixture import Servers, remove

CERTIFIED = "certified"
"""A role that only its certificate lets in."""


@dataclass(frozen=True)
class TlsSource:
    """A Postgres with TLS, as its superuser sees it. `certified`: the certificate of the role of that name."""

    host: str
    port: int
    password: str
    authority: Authority
    certified: Identity
    data: Path

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(
            host=self.host, port=self.port, user="postgres", password=self.password, dbname="postgres", autocommit=True
        )

    def run(self, statement: str, *names: str) -> None:
        with self.connect() as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def use_certificate(self, identity: Identity) -> None:
        """Let the server show this certificate to sessions that begin from now on."""
        user = server_user()
        for file, name in ((identity.certificate, "server.crt"), (identity.key, "server.key")):
            shutil.copyfile(file, self.data / name)
            (self.data / name).chmod(0o600)
            if user:
                os.chown(self.data / name, user.uid, user.gid)
        with self.connect() as connection:
            connection.execute("ALTER SYSTEM SET ssl = on")
            connection.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def secured(servers: Servers) -> Secured:
    if servers.home is None:
        pytest.skip("containers have no further listeners")
    return secured_of(servers.home)


@pytest.fixture(scope="session")
def tls_source(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsSource]:
    home = Home(tmp_path_factory.mktemp("source") / ".cdc")
    try:
        found = up(home, {Service.POSTGRES})
        data, authority = data_folder(home, server_user()) / "data", secured.authority
        certified = authority.issue("certified", role=CERTIFIED)
        source = TlsSource(
            found.postgres_host, found.postgres_port, found.postgres_password.read(), authority, certified, data
        )
        shutil.copyfile(authority.ca, data / "ca.pem")
        (data / "ca.pem").chmod(0o644)
        rules = data / "pg_hba.conf"
        rules.write_text(f"hostssl all,replication {CERTIFIED} 127.0.0.1/32 cert\n" + rules.read_text())
        source.run("ALTER SYSTEM SET ssl_ca_file = 'ca.pem'")
        source.use_certificate(authority.issue("postgres", "localhost", "127.0.0.1"))
        source.run(f"CREATE ROLE {CERTIFIED} SUPERUSER REPLICATION LOGIN")
        yield source
    finally:
        remove(home)


@pytest.fixture(scope="session")
def tokens(secured: Secured) -> Iterator[TokenServer]:
    with TokenServer(secured.authority, secured.ports.tokens).serving() as server:
        yield server


@pytest.fixture(scope="session")
def scram(servers: Servers) -> "Scram":
    return Scram(servers.values.bootstrap)


@dataclass(frozen=True)
class Scram:
    """Users of the brokers by SCRAM; `bootstrap`: where an administrator gets in."""

    bootstrap: str

    def set_password(self, user: str, password: str) -> None:
        with AdminClient({"bootstrap.servers": self.bootstrap}) as admin:
            # one in each request: brokers alter a user once only
            for each in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                made = UserScramCredentialUpsertion(user, ScramCredentialInfo(each, 4096), password.encode())
                for done in admin.alter_user_scram_credentials([made]).values():
                    done.result()


@pytest.fixture(scope="session")
def gateway(secured: Secured, servers: Servers) -> Iterator[Gateway]:
    with Gateway(secured.authority, servers.values.search_url).serving() as found:
        yield found


def at(servers: Servers, source: TlsSource) -> Servers:
    """The same parts, with that source."""
    values = replace(servers.values, host=source.host, port=source.port, user="postgres", password_reference=None)
    return replace(servers, values=values, password=source.password)
