"""The container stack: its files keep their promises, and it starts, if a Docker engine answers."""

import json
import os
import re
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import httpx
import psycopg
import pytest
from ruamel.yaml import YAML

from cdc.config.file import load, read
from cdc.connect.fixed_properties import CONNECTOR_CLASS
from cdc.core.errors import ConfigurationError
from cdc.local import plugin_jar as jar
from cdc.local.endpoints import Endpoints
from cdc.local.launch_context import LaunchContext
from cdc.local.servers import connect_worker, kafka_broker
from cdc.local.servers.connect_worker import worker_settings
from cdc.local.servers.kafka_broker import broker_settings
from cdc.local.servers.opensearch_node import node_settings
from cdc.local.state.passwords import Password
from cdc.local.state_dir import Home
from tests.support.parts.servers_fixture import PORTS, own_stack

ROOT: Final = Path(__file__).parents[2]
DOCKER: Final = ROOT / "docker"
SERVERS: Final = ("postgres", "kafka", "connect", "opensearch")
GIB: Final = 2**30
_UNITS: Final = {"m": 2**20, "g": GIB}
_VARIABLE: Final = re.compile(r"(?<!\$)\$\{(\w+)(?::([-?])[^}]*)?\}")
_PORTS: Final = ("postgres", "kafka", "kafka.controller", "connect", "search", "search.transport")
# addresses and places, which are others inside a container
_KAFKA_OWN: Final = {
    "controller.quorum.voters",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "log.dirs",
}
_CONNECT_OWN: Final = {
    "bootstrap.servers",
    "listeners",
    "rest.advertised.host.name",
    "rest.advertised.port",
    "plugin.path",
    # nobody has a login there: docker/README.md says so
    "rest.extension.classes",
    "config.providers.file.param.allowed.paths",
    "config.providers.dir.param.allowed.paths",
}
# what the image's entry point calls by names of its own
_CONNECT_NAMES: Final = {
    "group.id",
    "config.storage.topic",
    "offset.storage.topic",
    "status.storage.topic",
    "key.converter",
    "value.converter",
    "offset.flush.interval.ms",
}


def _yaml(path: Path) -> dict[str, Any]:
    return cast(dict[str, Any], YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8")))


def _services() -> dict[str, dict[str, Any]]:
    return cast(dict[str, dict[str, Any]], _yaml(DOCKER / "compose.yaml")["services"])


def _example() -> dict[str, str]:
    lines = (DOCKER / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def _environment(service: str) -> dict[str, str]:
    """The variables of a container, with the values of `.env.example`."""
    found = _services()[service]["environment"]
    values = _example()
    return {
        name: _VARIABLE.sub(lambda match: values[match[1]], str(value))
        for name, value in found.items()
        if value is not None
    }


def _site(folder: Path) -> LaunchContext:
    return LaunchContext(Home(folder / ".cdc"), folder, dict.fromkeys(_PORTS, 1), {})


def _as_variable(name: str) -> str:
    return name.upper().replace(".", "_")


def _text(values: Mapping[str, object], without: set[str]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if name not in without}


def _copy_stack(folder: Path) -> Path:
    return shutil.copytree(DOCKER, folder / "docker", ignore=shutil.ignore_patterns("secrets", "work", ".env"))


def _prepare(folder: Path) -> Path:
    """Run the README's first block in `folder`, as it stands there."""
    block = re.search(r"```sh\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block
    subprocess.run(["sh", "-euc", block[1]], cwd=folder, check=True, timeout=60)
    return folder


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _compose(folder: Path, *arguments: str, environ: Mapping[str, str] = os.environ) -> str:
    done = subprocess.run(
        ["docker", "compose", *arguments], cwd=folder, capture_output=True, text=True, check=False, env=dict(environ)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _says(*command: str) -> str | None:
    """None if the command succeeds, else the last line of why not."""
    if shutil.which(command[0]) is None:
        return f"there is no {command[0]}"
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("Run ")]
    return None if done.returncode == 0 else (lines or [f"{' '.join(command)} failed"])[-1]


@pytest.fixture
def compose() -> None:
    if reason := _says("docker", "compose", "version"):
        pytest.skip(f"no Docker Compose: {reason}")


@pytest.fixture
def engine(compose: None) -> None:
    if reason := _says("docker", "version"):
        pytest.skip(f"no Docker engine: {reason}")


def test_every_variable_is_pinned_in_the_example() -> None:
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    required = {match[1] for match in _VARIABLE.finditer(text) if match[2] != "-"}
    optional = {match[1] for match in _VARIABLE.finditer(text) if match[2] == "-"}
    assert required == set(_example())
    assert optional == {"CDC_UID", "CDC_GID"}


def test_versions_are_those_of_the_local_parts() -> None:
    jars = tomllib.loads((ROOT / "cdc/local/fetch/jars.toml").read_text(encoding="utf-8"))
    versions = _example()
    assert f"org.apache.kafka:kafka_2.13:{versions['KAFKA_VERSION']}" in jars["kafka"]["roots"]
    assert f"io.debezium:debezium-connector-postgres:{versions['DEBEZIUM_VERSION']}" in jars["debezium"]["roots"]
    assert jars["opensearch"]["roots"][0].endswith(f":{versions['OPENSEARCH_VERSION']}.0")
    assert jars["postgres"]["platforms"]["linux-amd64"].endswith(f":{versions['POSTGRES_VERSION']}.0")


def test_images_are_pinned() -> None:
    for name in sorted({*SERVERS} - {"connect"}):
        assert re.fullmatch(r"[\w./-]+:\$\{\w+_VERSION:\?[^}]*\}", _services()[name]["image"]), name
    # Debezium's image with the converter in it
    assert _services()["connect"]["build"]["args"] == {"DEBEZIUM_VERSION": "${DEBEZIUM_VERSION:?}"}


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in _services().values() for port in service.get("ports", [])]
    assert len(published) == len(SERVERS)
    assert all(re.fullmatch(r"127\.0\.0\.1:\$\{CDC_\w+_PORT:\?\}:\d+", port) for port in published)
    assert not any("network_mode" in service for service in _services().values())


def test_services_wait_for_health_checks_of_others() -> None:
    services = _services()
    assert all(services[name]["healthcheck"]["test"][0] == "CMD-SHELL" for name in SERVERS)
    assert set(services["connect"]["depends_on"]) == {"kafka"}
    assert set(services["cdc"]["depends_on"]) == set(SERVERS)
    needs = [need for service in services.values() for need in service.get("depends_on", {}).values()]
    assert all(need == {"condition": "service_healthy"} for need in needs)


def test_memory_is_limited_below_six_gib() -> None:
    limits = [service["mem_limit"] for service in _services().values()]
    assert sum(int(limit[:-1]) * _UNITS[limit[-1]] for limit in limits) < 6 * GIB


@pytest.mark.parametrize(("service", "variable"), [("kafka", "KAFKA_HEAP_OPTS"), ("connect", "HEAP_OPTS")])
def test_heaps_leave_room_for_the_rest_of_the_process(service: str, variable: str) -> None:
    heap = re.search(r"-Xmx(\d+)m", _environment(service)[variable])
    assert heap
    assert int(heap[1]) + 256 <= int(_services()[service]["mem_limit"].removesuffix("m"))


def test_data_is_in_named_volumes() -> None:
    named = _yaml(DOCKER / "compose.yaml")["volumes"]
    used = [volume for service in _services().values() for volume in service.get("volumes", [])]
    assert {volume.split(":")[0] for volume in used if isinstance(volume, str)} == set(named)
    folders = {"postgres": "/var/lib/postgresql/data", "opensearch": "/usr/share/opensearch/data"}
    for name, folder in (folders | {"kafka": _environment("kafka")["KAFKA_LOG_DIRS"]}).items():
        assert [volume.split(":")[1] for volume in _services()[name]["volumes"]] == [folder]


def test_secrets_are_files_that_git_does_not_see() -> None:
    files = [secret["file"] for secret in _yaml(DOCKER / "compose.yaml")["secrets"].values()]
    for file in (*files, ".env", "work/lake"):
        subprocess.run(["git", "check-ignore", "--quiet", file], cwd=DOCKER, check=True)
    variables = [name for service in SERVERS for name in _environment(service)]
    assert [name for name in variables if "PASSWORD" in name] == ["POSTGRES_PASSWORD_FILE"]


def test_postgres_has_what_logical_replication_needs() -> None:
    settings = dict(flag.removeprefix("-c").split("=", 1) for flag in _services()["postgres"]["command"][1:])
    assert settings["wal_level"] == "logical"
    assert int(settings["max_replication_slots"]) >= 10
    assert int(settings["max_wal_senders"]) >= int(settings["max_replication_slots"])
    environ = _environment("postgres")
    assert environ["POSTGRES_HOST_AUTH_METHOD"] == "scram-sha-256"
    assert "--auth=scram-sha-256" in environ["POSTGRES_INITDB_ARGS"]


def test_broker_has_the_settings_of_the_local_one(tmp_path: Path) -> None:
    expected = _text(broker_settings(_site(tmp_path), tmp_path), _KAFKA_OWN)
    environ = _environment("kafka")
    assert {name: environ.get(f"KAFKA_{_as_variable(name)}") for name in expected} == expected


def test_the_broker_advertises_what_each_client_can_reach() -> None:
    environ = _environment("kafka")
    advertised = f"INTERNAL://kafka:9092,HOST://127.0.0.1:{_example()['CDC_LOG_PORT']}"
    assert environ["KAFKA_ADVERTISED_LISTENERS"] == advertised
    assert _environment("connect")["BOOTSTRAP_SERVERS"] == "kafka:9092"
    inside = _services()["kafka"]["ports"][0].rsplit(":", 1)[1]
    assert f"HOST://:{inside}" in environ["KAFKA_LISTENERS"].split(",")


def test_worker_has_the_settings_of_the_local_one(tmp_path: Path) -> None:
    expected = _text(worker_settings(_site(tmp_path)), _CONNECT_OWN)
    environ = _environment("connect")
    names = {name: ("" if name in _CONNECT_NAMES else "CONNECT_") + _as_variable(name) for name in expected}
    assert {name: environ.get(variable) for name, variable in names.items()} == expected


def test_the_worker_reads_secrets_only() -> None:
    environ = _environment("connect")
    paths = {value for name, value in environ.items() if name.endswith("_ALLOWED_PATHS")}
    assert paths == {"/run/secrets"}
    assert _services()["connect"]["secrets"] == ["postgres.properties"]


def test_node_has_the_settings_of_the_local_one(tmp_path: Path) -> None:
    lines = dict(line.split(": ", 1) for line in node_settings(_site(tmp_path)).splitlines())
    expected = {name: value for name, value in lines.items() if name not in ("network.host", "transport.port")}
    environ = _environment("opensearch")
    assert {name: environ.get(name) for name in expected} == expected


def test_the_readme_prepares_secrets_for_their_readers_only(tmp_path: Path) -> None:
    folder = _prepare(_copy_stack(tmp_path))
    password = (folder / "secrets/postgres.password").read_text(encoding="utf-8")
    assert re.fullmatch(r"[0-9a-f]{48}", password)
    properties = (folder / "secrets/postgres.properties").read_text(encoding="utf-8")
    assert properties == f"user=postgres\npassword={password}\n"
    assert _mode(folder / "secrets") == 0o700
    assert _mode(folder / "secrets/postgres.password") == 0o600
    assert _mode(folder / "secrets/postgres.properties") == 0o644
    assert f"CDC_UID={os.getuid()}\n" in (folder / ".env").read_text(encoding="utf-8")


def test_preparing_again_keeps_the_password(tmp_path: Path) -> None:
    folder = _prepare(_copy_stack(tmp_path))
    before = (folder / "secrets/postgres.password").read_text(encoding="utf-8")
    assert (_prepare(folder) / "secrets/postgres.password").read_text(encoding="utf-8") == before


def test_the_configuration_loads_on_this_machine(tmp_path: Path) -> None:
    folder = _prepare(_copy_stack(tmp_path))
    loaded = read(folder / "cdc.yaml", {})
    found, example = loaded.settings, _example()
    assert loaded.warnings == ()
    assert (found.source.host, str(found.source.port)) == ("127.0.0.1", example["CDC_SOURCE_PORT"])
    assert found.source.password.get_secret_value() == (folder / "secrets/postgres.password").read_text("utf-8")
    assert found.log.bootstrap == f"127.0.0.1:{example['CDC_LOG_PORT']}"
    assert found.connect.url == f"http://127.0.0.1:{example['CDC_CONNECT_PORT']}"
    assert found.connect.password_reference == "${file:/run/secrets/postgres.properties:password}"
    assert found.delta[1].path == str(folder.resolve() / "work/lake")


def test_the_configuration_loads_in_the_container(tmp_path: Path) -> None:
    folder = _prepare(_copy_stack(tmp_path))
    found = load(folder / "cdc.yaml", _environment("cdc"))
    assert (found.source.host, found.source.port) == ("postgres", 5432)
    assert (found.connect.source_host, found.connect.source_port) == ("postgres", 5432)
    assert found.log.bootstrap == _environment("connect")["BOOTSTRAP_SERVERS"]
    assert (found.connect.url, found.pipeline.state) == ("http://connect:8083", "/work/.cdc")
    assert found.source.dbname == _environment("postgres")["POSTGRES_DB"]


def test_the_configuration_names_a_missing_secret(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"secrets/postgres\.password cannot be read"):
        load(_copy_stack(tmp_path) / "cdc.yaml", {})


def test_container_mounts_the_files_of_the_configuration() -> None:
    service, environ = _services()["cdc"], _environment("cdc")
    folder = str(Path(environ["CDC_CONFIG"]).parent)
    targets = {volume["target"] for volume in service["volumes"] if not isinstance(volume, str)}
    assert targets == {environ["CDC_CONFIG"], environ["CDC_WORK"]}
    assert service["secrets"][0]["target"] == f"{folder}/secrets/postgres.password"


def test_the_image_has_the_packages_that_the_project_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kept = re.findall(r"^!(\S+)$", (DOCKER / "spark.Dockerfile.dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    # links in a package lead to folders beside it
    packages |= {path.resolve().name for name in packages for path in (ROOT / name).iterdir() if path.is_symlink()}
    assert set(kept) == packages | {"pyproject.toml", project["project"]["readme"]}
    text = (DOCKER / "spark.Dockerfile").read_text(encoding="utf-8")
    assert f"ARG PYTHON_VERSION={_example()['PYTHON_VERSION']}\n" in text
    assert "openjdk-17-jre-headless" in text
    assert 'ENTRYPOINT ["cdc"]' in text


def test_connect_gets_the_converter_that_the_local_parts_compile() -> None:
    text = (DOCKER / "connect.Dockerfile").read_text(encoding="utf-8")
    assert f"ARG DEBEZIUM_VERSION={_example()['DEBEZIUM_VERSION']}\n" in text
    [folder] = {source.resolve().parent.relative_to(ROOT) for source in jar.SOURCES}
    assert {each.resolve().relative_to(ROOT).parent for each in jar.SERVICES} == {folder / "META-INF/services"}
    ignored = (DOCKER / "connect.Dockerfile.dockerignore").read_text(encoding="utf-8")
    for copied in (f"{folder}/*.java", f"{folder}/META-INF"):
        assert (f"COPY {copied} " in text, f"!{copied}\n" in ignored) == (True, True)
    assert f"--release {jar.RELEASE} " in text


def test_no_python_in_the_folder() -> None:
    assert list(DOCKER.rglob("*.py")) == []


@pytest.mark.usefixtures("compose")
def test_compose_accepts_the_files(tmp_path: Path) -> None:
    folder = _prepare(_copy_stack(tmp_path))
    found = json.loads(_compose(folder, "--profile", "cdc", "config", "--format", "json"))
    assert set(found["services"]) == {*SERVERS, "cdc"}
    hosts = [port["host_ip"] for service in found["services"].values() for port in service.get("ports", [])]
    assert hosts == ["127.0.0.1"] * len(SERVERS)
    assert str(os.getuid()) == found["services"]["cdc"]["build"]["args"]["CDC_UID"]


@pytest.fixture
def started(engine: None, tmp_path: Path) -> Iterator[Endpoints]:
    folder = _prepare(_copy_stack(tmp_path))
    own = own_stack("test")
    environ, [source, log, connect, search] = {**os.environ, **own}, [own[name] for name in PORTS]
    try:
        _compose(folder, "up", "--wait", "--quiet-pull", environ=environ)
        yield Endpoints(
            postgres_host="127.0.0.1",
            postgres_port=int(source),
            postgres_user="postgres",
            postgres_password=Password(folder / "secrets/postgres.password", folder / "secrets/postgres.properties"),
            kafka_bootstrap=f"127.0.0.1:{log}",
            connect_url=f"http://127.0.0.1:{connect}",
            # asked for by none of its images
            connect_password=Password(folder / "secrets/postgres.password", folder / "secrets/postgres.properties"),
            search_url=f"http://127.0.0.1:{search}",
        )
    finally:
        _compose(folder, "down", "--volumes", "--timeout", "10", environ=environ)


def test_the_stack_starts_and_answers(started: Endpoints) -> None:
    with psycopg.connect(started.postgres_dsn("shop"), connect_timeout=5) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
    assert kafka_broker.answers(started)
    assert connect_worker.answers(started)
    plugins = httpx.get(f"{started.connect_url}/connector-plugins", timeout=10, trust_env=False).json()
    assert CONNECTOR_CLASS in [plugin["class"] for plugin in plugins]
    health = httpx.get(f"{started.search_url}/_cluster/health", timeout=10, trust_env=False).json()
    assert health["status"] in ("yellow", "green")
