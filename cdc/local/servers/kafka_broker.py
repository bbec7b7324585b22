"""The log: one Kafka process, broker and controller in one, on the loopback address."""

import base64
import os
import socket
import struct
import subprocess
import uuid
from pathlib import Path
from typing import Final

from cdc.local.endpoints import Endpoints, Service
from cdc.local.launch_context import LaunchContext
from cdc.local.running.failures import command_error
from cdc.local.running.processes import Launch
from cdc.local.servers import jvm
from cdc.local.servers.java import find_java
from cdc.local.state.files import write_properties
from cdc.local.state.ports import LOOPBACK

CONTROLLER: Final = "kafka.controller"
PORTS: Final = (Service.KAFKA, CONTROLLER)
FILES: Final = ("kafka",)
# three replicas, as is the default, are not to be had of one broker: the topics could not be made
_ALONE: Final = {
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    # an idle controller writes a record so often, for others that may follow it; by default twice a second
    "metadata.max.idle.interval.ms": 10_000,
    # each looks for work three times a second, of both listeners; by default there are three and eight
    "num.network.threads": 1,
    "num.io.threads": 2,
    # the default of 128 MiB is a quarter of this heap
    "log.cleaner.dedupe.buffer.size": 33_554_432,
    # who tries out retention and compaction watches: by default one looks for them every five minutes and 15 seconds
    "log.retention.check.interval.ms": 5_000,
    "log.cleaner.backoff.ms": 5_000,
}
_API_VERSIONS: Final = struct.pack(">hhih", 18, 0, 1, -1)
"""The request that a broker of any version answers (KIP-35): its key, version 0, a number to know it by, no client."""


def launch(site: LaunchContext) -> Launch:
    """Write the broker's settings, and format its storage if it is new; returns its launch."""
    folder = site.home.folder(Service.KAFKA)
    data = folder / "data"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = folder / "server.properties"
    write_properties(settings, broker_settings(site, data))
    if not (data / "meta.properties").exists():
        _format(site, settings)
    return jvm.launch(site, Service.KAFKA, jvm.Program("kafka.Kafka", [str(settings)], "kafka", "512m"))


def broker_settings(site: LaunchContext, data: Path) -> dict[str, object]:
    """The broker's server.properties, as names and values."""
    broker, controller = (f"{LOOPBACK}:{site.ports[name]}" for name in PORTS)
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"BROKER://{broker},CONTROLLER://{controller}",
        "advertised.listeners": f"BROKER://{broker}",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": data,
        # a topic that is read before it is made would come to be with one partition and no retention of ours
        "auto.create.topics.enable": "false",
        **_ALONE,
    }


def answers(endpoints: Endpoints) -> bool:
    """Whether the broker answers a request: it opens its port some time before."""
    host, port = endpoints.kafka_bootstrap.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
            return len(connection.recv(8)) == 8
    except OSError:
        return False


def _format(site: LaunchContext, settings: Path) -> None:
    # a letter first: an id that begins with a dash would be read as an option
    cluster = "c" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
    java = find_java().command("kafka.tools.StorageTool", jvm.options(site.home, Service.KAFKA, "256m"), ["format"])
    made = subprocess.run(  # noqa: S603
        [*java, "--cluster-id", cluster, "--config", settings],
        env={**os.environ, **site.class_path("kafka")},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise command_error(Service.KAFKA, "formatting its storage", made.stdout + made.stderr)
