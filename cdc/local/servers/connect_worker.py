"""Kafka Connect: one distributed worker with Debezium as its plugin and exactly-once for sources."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import httpx

from cdc.core.errors import PreconditionError
from cdc.https import tls_context
from cdc.local.endpoints import CONNECT_USER, Endpoints, Service
from cdc.local.launch_context import LaunchContext
from cdc.local.plugin_jar import build_plugin_jar
from cdc.local.running.processes import Launch
from cdc.local.servers import jvm
from cdc.local.servers.java import find_java
from cdc.local.state.files import write, write_properties
from cdc.local.state.passwords import password
from cdc.local.state.ports import LOOPBACK

PORTS: Final = (Service.CONNECT,)
FILES: Final = ("connect", "debezium", "compiler")
_MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_TOPICS: Final = {
    "config.storage.topic": "cdc-connect-configs",
    "config.storage.replication.factor": 1,
    "offset.storage.topic": "cdc-connect-offsets",
    "offset.storage.replication.factor": 1,
    "offset.storage.partitions": 5,
    "status.storage.topic": "cdc-connect-status",
    "status.storage.replication.factor": 1,
    "status.storage.partitions": 1,
}
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_CONVERTERS: Final = {
    "key.converter": _JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": _JSON,
    "value.converter.schemas.enable": "false",
}
# a worker that was killed must not be waited for long: it is the only one
_ALONE: Final = {
    # five minutes by default, for a worker that is gone to come back to its tasks (KIP-415)
    "scheduled.rebalance.max.delay.ms": 0,
    # the least that a broker takes (group.min.session.timeout.ms)
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 2000,
    "offset.flush.interval.ms": 5000,
    # how long the worker's own readers wait for something new, which hardly ever comes: half a second by default, and
    # each look costs a little; but a worker or a connector that stops waits for the last look of each
    "fetch.max.wait.ms": 1000,
    # and those of a connector's offsets
    "consumer.fetch.max.wait.ms": 1000,
}
_LOGIN: Final = "org.apache.kafka.connect.rest.basic.auth.extension"
_PROVIDERS: Final = "org.apache.kafka.common.config.provider"


def launch(site: LaunchContext) -> Launch:
    """Write the worker's settings and its plugin folder; returns its launch."""
    folder = site.home.folder(Service.CONNECT)
    debezium = site.files["debezium"]
    exact = build_plugin_jar(
        find_java().program, site.files["compiler"], [*site.files["connect"], *debezium], site.cache
    )
    _lay_out(folder / "plugins" / "debezium-connector-postgres", [*debezium, exact])
    settings = folder / "worker.properties"
    write_properties(settings, worker_settings(site))
    login = f"-Djava.security.auth.login.config={_write_login(site)}"
    return jvm.launch(site, Service.CONNECT, jvm.Program(_MAIN, [str(settings)], "connect", "768m", [login]))


def _write_login(site: LaunchContext) -> Path:
    """Write who may use the REST interface, and the file of JAAS that names it; returns the latter.

    Who may use it can have every file below `secrets` sent anywhere, so others on this machine may not.
    """
    folder = site.home.folder(Service.CONNECT)
    users, login = folder / "users.properties", folder / "login.jaas"
    write_properties(users, {CONNECT_USER: password(site.home, CONNECT_USER).read()})
    named = str(users).replace('"', '\\"')
    write(login, f'KafkaConnect {{\n  {_LOGIN}.PropertyFileLoginModule required file="{named}";\n}};\n')
    return login


def worker_settings(site: LaunchContext) -> dict[str, object]:
    """The worker's properties, as names and values. Configurations may refer to files in `secrets` only."""
    port = site.ports[Service.CONNECT]
    return {
        "bootstrap.servers": f"{LOOPBACK}:{site.ports[Service.KAFKA]}",
        "group.id": "cdc-connect",
        "listeners": f"http://{LOOPBACK}:{port}",
        "rest.advertised.host.name": LOOPBACK,
        "rest.advertised.port": port,
        "plugin.path": site.home.folder(Service.CONNECT) / "plugins",
        # loads plugins from service files only: no scan of every class on the path (KIP-898)
        "plugin.discovery": "service_load",
        # KIP-618; our connectors require it
        "exactly.once.source.support": "enabled",
        "rest.extension.classes": f"{_LOGIN}.BasicAuthSecurityRestExtension",
        "config.providers": "file,dir,env",
        "config.providers.file.class": f"{_PROVIDERS}.FileConfigProvider",
        "config.providers.file.param.allowed.paths": site.home.secrets,
        "config.providers.dir.class": f"{_PROVIDERS}.DirectoryConfigProvider",
        "config.providers.dir.param.allowed.paths": site.home.secrets,
        "config.providers.env.class": f"{_PROVIDERS}.EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "CDC_.*",
        **_TOPICS,
        **_CONVERTERS,
        **_ALONE,
    }


def answers(endpoints: Endpoints) -> bool:
    """Whether the worker has joined its group and lists its connectors.

    PreconditionError if it was started with another password than the home has.
    """
    try:
        # a proxy of the environment knows no loopback address of ours
        login = (CONNECT_USER, endpoints.connect_password.read())
        url = f"{endpoints.connect_url}/connectors"
        answer = httpx.get(url, auth=login, timeout=5, trust_env=False, verify=tls_context())
    except httpx.TransportError:
        return False
    # it will not get better: no waiting until the patience is over
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        raise PreconditionError(
            f"Kafka Connect was not started with the password in {endpoints.connect_password.file}",
            "run cdc down, then cdc up",
        )
    return answer.status_code == httpx.codes.OK


def _lay_out(plugin: Path, jars: Sequence[Path]) -> None:
    plugin.mkdir(mode=0o700, parents=True, exist_ok=True)
    # made anew at every start: a jar of another version beside its successor would be loaded as well
    for old in plugin.iterdir():
        old.unlink()
    for jar in jars:
        (plugin / jar.name).symlink_to(jar)
