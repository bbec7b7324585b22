"""The real parts for tests: testcontainers with docker/compose.yaml where Docker answers, else local processes."""

import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from cdc.config.init import TemplateValues
from cdc.local.endpoints import Service
from cdc.local.services import down, up, wipe
from cdc.local.state_dir import Home
from tests.support.parts.ports import server_ports
from tests.support.parts.secured import further_listeners

DOCKER = Path(__file__).parents[3] / "docker"
PORTS = ("CDC_SOURCE_PORT", "CDC_LOG_PORT", "CDC_CONNECT_PORT", "CDC_SEARCH_PORT")
SERVICES = {
    Service.POSTGRES: "postgres",
    Service.KAFKA: "kafka",
    Service.CONNECT: "connect",
    Service.SEARCH: "opensearch",
}


@dataclass(frozen=True)
class Servers:
    """Where the parts answer, as a configuration names them."""

    values: TemplateValues
    password: str
    stop: Callable[[Service], object]
    start: Callable[[Service], object]
    home: Home | None = None
    """Where they run as local processes."""

    @contextmanager
    def without(self, part: Service) -> Iterator[None]:
        """A part is down for as long as the context lasts, with its data kept."""
        try:
            self.stop(part)
            yield
        finally:
            self.start(part)

    def with_source(self, port: int, password: str) -> "Servers":
        """The same with another Postgres of this machine as the source."""
        values = replace(self.values, host="127.0.0.1", port=port, password_reference=None)
        return replace(self, values=values, password=password)

    def connect(self, dbname: str = "postgres") -> "psycopg.Connection[Any]":
        v = self.values
        return psycopg.connect(
            host=v.host,
            port=v.port,
            dbname=dbname,
            user=v.user,
            password=self.password,
            autocommit=True,
            client_encoding="UTF8",
        )


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """All parts, started once a run: by the first of its processes that asks for them. No test may disturb them."""
    if docker_answers() and os.environ.get("CDC_TEST_SERVERS") != "local":
        yield from containers(tmp_path_factory.mktemp("compose"))
    else:
        home = shared_home(tmp_path_factory)
        with further_listeners(home):
            found = of_home(home)
        yield found


@pytest.fixture(scope="session")
def own_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """All parts again, for tests that stop them or change what holds for all of a server."""
    if docker_answers() and os.environ.get("CDC_TEST_SERVERS") != "local":
        yield from containers(tmp_path_factory.mktemp("compose"))
    else:
        home = Home(tmp_path_factory.mktemp("parts") / ".cdc")
        yield of_home(home)
        remove(home)


def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Where the shared parts lie: in the folder that the processes of a run have in common."""
    own = tmp_path_factory.getbasetemp()
    return Home((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "parts" / ".cdc")


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Keep the run's folder, which pytest gives up here, from other runs: in it are records of parts that still run."""
    yield
    if home := _parts_to_end(session.config):
        _lock(home).touch()


def pytest_unconfigure(config: pytest.Config) -> None:
    """The process that others have worked for, or the only one, ends the shared parts when all tests are done."""
    if home := _parts_to_end(config):
        remove(home)
        _lock(home).unlink(missing_ok=True)


def _parts_to_end(config: pytest.Config) -> Home | None:
    """The home of the shared parts, if there are any, and it is this process that ends them."""
    factory = getattr(config, "_tmp_path_factory", None)
    if "PYTEST_XDIST_WORKER" in os.environ or factory is None:
        return None
    home = shared_home(factory)
    return home if home.path.exists() else None


def _lock(home: Home) -> Path:
    """Whose folder has this file, none of pytest's later runs deletes: `shared_home` lies two below it."""
    return home.path.parents[1] / ".lock"


def remove(home: Home) -> None:
    down(home)
    wipe(home)


@pytest.fixture(scope="session")
def kafka_bootstrap(request: pytest.FixtureRequest) -> str:
    """Where a broker listens: the one that CDC_TEST_KAFKA names, or that of `servers`."""
    return os.environ.get("CDC_TEST_KAFKA") or _servers(request).values.bootstrap


@pytest.fixture(scope="session")
def search_url(request: pytest.FixtureRequest) -> str:
    """Where an OpenSearch node answers: the one that CDC_TEST_SEARCH names, or that of `servers`."""
    return os.environ.get("CDC_TEST_SEARCH") or _servers(request).values.search_url


def _servers(request: pytest.FixtureRequest) -> Servers:
    found = request.getfixturevalue("servers")
    assert isinstance(found, Servers)
    return found


def docker_answers() -> bool:
    """Is there a Docker engine?"""
    from testcontainers.core.docker_client import DockerClient

    try:
        DockerClient().client.ping()
    except Exception:  # noqa: BLE001 - whatever keeps the engine from answering, there is none
        return False
    return True


def of_home(home: Home) -> Servers:
    """The parts of a home; those that do not run are started. Whoever comes meanwhile waits."""
    found = up(home)
    values = TemplateValues(
        host=found.postgres_host,
        port=found.postgres_port,
        user=found.postgres_user,
        password="${env:CDC_TEST_PASSWORD}",
        bootstrap=found.kafka_bootstrap,
        connect_url=found.connect_reference,
        password_reference=found.postgres_password.reference,
        search_url=found.search_url,
    )
    values, password = _of_named(values, found.postgres_password.read())
    return Servers(values, password, lambda part: down(home, {part}), lambda part: up(home, {part}), home)


def _of_named(values: TemplateValues, password: str) -> tuple[TemplateValues, str]:
    """The same with the Postgres that CDC_TEST_POSTGRES names, if it does, as the source."""
    if not (named := os.environ.get("CDC_TEST_POSTGRES")):
        return values, password
    own = {key: str(value) for key, value in conninfo_to_dict(named).items()}
    port = int(own.get("port", 5432))
    named_values = replace(values, host=own["host"], port=port, user=own["user"], password_reference=None)
    return named_values, own["password"]


def containers(folder: Path) -> Iterator[Servers]:
    from testcontainers.compose import DockerCompose

    password = secrets.token_urlsafe(16)
    made = {"postgres.password": password, "postgres.properties": f"password={password}\n"}
    kept = DOCKER / "secrets"
    kept.mkdir(mode=0o700, exist_ok=True)
    for name, text in made.items():
        if not (kept / name).exists():
            (kept / name).write_text(text)
    os.environ.update(own_stack("tests"))
    with DockerCompose(str(DOCKER), compose_file_name="compose.yaml", wait=True) as compose:
        values = TemplateValues(
            host="127.0.0.1",
            port=int(compose.get_service_port("postgres", 5432) or 0),
            user="postgres",
            password="${env:CDC_TEST_PASSWORD}",
            bootstrap=f"127.0.0.1:{os.environ['CDC_LOG_PORT']}",
            connect_url=f"http://127.0.0.1:{compose.get_service_port('connect', 8083)}",
            password_reference="${file:/run/secrets/postgres.properties:password}",
            source_host="postgres",
            source_port=5432,
            search_url=f"http://127.0.0.1:{compose.get_service_port('opensearch', 9200)}",
        )
        yield Servers(
            values,
            (kept / "postgres.password").read_text().strip(),
            lambda part: composed("stop", SERVICES[part]),
            lambda part: composed("up", "--detach", "--wait", SERVICES[part]),
        )


def own_stack(name: str) -> dict[str, str]:
    """What Compose is told of a stack that only this process has: others would stop its parts."""
    ports = zip(PORTS, map(str, server_ports(len(PORTS))), strict=True)
    return {"COMPOSE_PROJECT_NAME": f"cdc-{name}-{os.getpid()}", **dict(ports)}


def composed(*arguments: str) -> None:
    subprocess.run(["docker", "compose", "--file", str(DOCKER / "compose.yaml"), *arguments], check=True)
