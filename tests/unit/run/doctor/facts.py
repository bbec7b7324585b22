"""Answers of healthy parts, to be changed by a test."""

import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cdc.config.settings import PipelineSettings
from cdc.connect.capture.connector_state import ConnectorState
from cdc.connect.capture.debezium_properties import OUR_CLASSES
from cdc.connect.fixed_properties import CONNECTOR_CLASS
from cdc.connect.source.registration import Registration
from cdc.connect.source.slots.standby import StandbyState
from cdc.core.position import Lsn
from cdc.core.table import Column, Kind, Table, TableName
from cdc.log.clients.cluster import DescribedTopic, KafkaFacts
from cdc.log.clients.open_transactions import OpenTransaction
from cdc.run.doctor.check import registered_checks
from cdc.run.doctor.facts.access import SourceRoute
from cdc.run.doctor.facts.connect import ConnectFacts, WantedConnector
from cdc.run.doctor.facts.machine import FolderFacts, MachineFacts
from cdc.run.doctor.facts.search import SearchFacts
from cdc.run.doctor.facts.source import PublicationFacts, ServerFacts, SourceFacts
from cdc.run.doctor.facts.standby import StandbyFacts
from cdc.run.doctor.facts.tables import TableFacts, TableSize
from cdc.run.doctor.facts.triggers import TriggerFacts
from cdc.run.doctor.facts.workers import WorkerPython
from cdc.run.doctor.parts import AskedParts
from cdc.run.doctor.runner import Finding, examine
from cdc.run.pipeline import Pipeline
from tests.unit.config.test_settings import made

T: Final = TableName("public", "t")
SETTINGS: Final = {
    "wal_level": "logical",
    "server_encoding": "UTF8",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "max_slot_wal_keep_size": "51200",
    "wal_sender_timeout": "60000",
    "logical_decoding_work_mem": "65536",
    "fsync": "on",
    "full_page_writes": "on",
    "max_connections": "100",
    "superuser_reserved_connections": "3",
}
ROLE: Final = {
    "rolsuper": False,
    "rolreplication": True,
    "rolconnlimit": -1,
    "member_of": [],
    "may_create": True,
    "may_see_others": True,
    "expires_days": None,
}
SLOT: Final = {
    "slot_name": "cdc_p",
    "slot_type": "logical",
    "plugin": "pgoutput",
    "database": "d",
    "temporary": False,
    "active": True,
    "wal_status": "reserved",
    "safe_wal_size": 50 << 30,
    "retained": 1000,
    "idle_seconds": None,
    "spilled": 0,
    "failover": True,
}
SERVER: Final = ServerFacts(170011, "d", SETTINGS, sessions=5, senders=1, has_tls=True)
STANDBY: Final = StandbyFacts(
    StandbyState(170011, True, "t", Lsn(9), False, True, True, "logical", "standby_1", 7), SETTINGS, slots=[SLOT]
)
PUBLICATION: Final = PublicationFacts(
    {"puballtables": False, "pubinsert": True, "pubupdate": True, "pubdelete": True, "pubtruncate": True}
    | {"pubviaroot": True, "owned": True},
    frozenset({T, TableName("cdc", "heartbeat"), TableName("cdc", "shapes")}),
)
SOURCE: Final = SourceFacts(
    SERVER,
    ROLE,
    SourceRoute(frozenset({socket.AF_INET}), offers_tls=True),
    slots=[SLOT],
    publication=PUBLICATION,
    triggers=TriggerFacts(are_whole=True),
    registered=Registration("p", "cdc_p", "cdc_p", "p"),
)
TABLES: Final = TableFacts(
    [T],
    [Table(T, (Column("id", Kind.BIGINT),), ("id",))],
    sizes={T: TableSize(1 << 20, 100, is_guessed=False, width=50, owner="o", is_owned=True)},
)
KAFKA: Final = KafkaFacts(3, {}, {"auto.create.topics.enable": "false", "socket.request.max.bytes": "104857600"})
PLUGINS: Final = {CONNECTOR_CLASS: "3.7.0.Final", **dict.fromkeys(OUR_CLASSES, "0.1.0")}
CONNECT: Final = ConnectFacts("4.3.1", PLUGINS, ConnectorState("cdc-p", "RUNNING", ("RUNNING",)))
SEARCH: Final = SearchFacts("opensearch", "2.19.1", "green", {}, {"node": 40.0}, "85%", 5, 1000, 100 << 20)
RIGHTS: Final = frozenset({"READ", "DESCRIBE", "DESCRIBE_CONFIGS"})
FOLDER: Final = FolderFacts("/lake", free_bytes=1 << 40, total_bytes=1 << 41, free_inodes=0.9, file_system="ext4")
MACHINE: Final = MachineFacts(
    65536, 16 << 30, has_zones=True, state=FOLDER, lake=FOLDER, packages={"pyspark": "4.2.0", "delta-spark": "4.4.0"}
)


def make_settings(folder: Path, **blocks: dict[str, Any]) -> PipelineSettings:
    source = {"host": "db.example.com", "dbname": "d", "user": "u", "password": "p", "tables": ["public.t"]}
    own: dict[str, dict[str, Any]] = {
        "log": {"bootstrap": "kafka.example.com:9093", "replication_factor": 3, "security_protocol": "SSL"},
        "connect": {"url": "https://u:p@connect.example.com", "password_reference": "${env:CDC_P}"},
    }
    followers = {
        "lake": {"kind": "delta", "path": str(folder)},
        "search": {"kind": "search", "url": "https://search.example.com", "prefix": "p"},
    }
    merged = {name: {**own.get(name, {}), **blocks.pop(name, {})} for name in own}
    return made(
        pipeline={"name": "p", "state": str(folder)},
        source={**source, **blocks.pop("source", {})},
        followers={**followers, **blocks.pop("followers", {})},
        **merged,
    )


def make_parts(settings: PipelineSettings, **known: Any) -> AskedParts:
    """The parts of a healthy pipeline that has begun, but for the answers that are given."""
    answers: dict[str, Any] = {
        "source": SOURCE,
        "standby": None,
        "tables": TABLES,
        "cluster": KAFKA,
        "connect": CONNECT,
        "wanted": WantedConnector({}, {}),
        "machine": MACHINE,
        "store": None,
        "catalog": None,
        "position": "there",
        "brokers": (4, 3),
        "rights": {"p.public.t": RIGHTS, "p.latest.public.t": RIGHTS | {"WRITE"}},
        "open": [OpenTransaction("p.public.t", 0, 7, 2.0)],
        "workers": WorkerPython("/usr/bin/python", sys.version_info[:2]),
        "search": SEARCH,
    }
    return AskedParts(Pipeline(settings), {**answers, **known})


def find(parts: AskedParts, name: str) -> list[Finding]:
    checks = [check for check in registered_checks() if check.name == name]
    assert checks, name
    return [*examine(parts, checks).findings]


def with_server(**changes: Any) -> SourceFacts:
    return replace(SOURCE, server=replace(SERVER, **changes))


def with_setting(name: str, value: str) -> SourceFacts:
    return with_server(settings={**SETTINGS, name: value})


def with_role(**changes: Any) -> SourceFacts:
    return replace(SOURCE, role={**ROLE, **changes})


def with_slot(**changes: Any) -> SourceFacts:
    return replace(SOURCE, slots=[{**SLOT, **changes}])


def topics(**config: str) -> KafkaFacts:
    """A cluster in which the table's topic has this configuration."""
    found = DescribedTopic("p.public.t", 3, 3, config=config)
    return replace(KAFKA, topics={found.name: found})
