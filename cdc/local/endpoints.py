"""The addresses of the services, as plain values for settings and clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from cdc.local.state.passwords import Password
from cdc.local.state.ports import LOOPBACK

SUPERUSER: Final = "postgres"
CONNECT_USER: Final = "connect"
"""Who may use the REST interface of Kafka Connect."""


class Service(StrEnum):
    """A service, which runs as a process; listed in this order, stopped in the reverse: Connect before Kafka."""

    POSTGRES = "postgres"
    KAFKA = "kafka"
    CONNECT = "connect"
    SEARCH = "search"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of all services of one home, whether they run or not."""

    postgres_host: str
    postgres_port: int
    postgres_user: str
    postgres_password: Password
    kafka_bootstrap: str
    connect_url: str
    connect_password: Password
    search_url: str

    def postgres_dsn(self, database: str = "postgres") -> str:
        """The libpq connection string of `database` for the superuser, with the password."""
        return (
            f"host={self.postgres_host} port={self.postgres_port} dbname={database} "
            f"user={self.postgres_user} password={self.postgres_password.read()}"
        )

    @property
    def connect_login(self) -> str:
        """Kafka Connect's URL with user and password, for a client."""
        return self.connect_login_by(self.connect_password.read())

    @property
    def connect_reference(self) -> str:
        """The same for a configuration, with a reference to the file of the password."""
        return self.connect_login_by(f"${{file:{self.connect_password.file}}}")

    def connect_login_by(self, password: str) -> str:
        """The same with this text as the password."""
        return self.connect_url.replace("://", f"://{CONNECT_USER}:{password}@")


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The status of one service; `pid` is None and `resident_bytes` 0 when it is stopped."""

    part: Service
    running: bool
    pid: int | None
    port: int | None
    resident_bytes: int
    log: Path


def endpoints_at(superuser: Password, connect: Password, ports: Mapping[str, int]) -> Endpoints:
    """The endpoints with these ports by name, and the passwords of Postgres' superuser and of Connect."""
    return Endpoints(
        postgres_host=LOOPBACK,
        postgres_port=ports[Service.POSTGRES],
        postgres_user=SUPERUSER,
        postgres_password=superuser,
        kafka_bootstrap=f"{LOOPBACK}:{ports[Service.KAFKA]}",
        connect_url=f"http://{LOOPBACK}:{ports[Service.CONNECT]}",
        connect_password=connect,
        search_url=f"http://{LOOPBACK}:{ports[Service.SEARCH]}",
    )
