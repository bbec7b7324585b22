"""Faults that no part of a test has, such as another provider's or an older version's: by the facts that tell of them.

Each is found by its name with its remedy, and not found in the same facts as they are once that was followed.
"""

import socket
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from cdc.connect.capture.connector_state import ConnectorState
from cdc.connect.settings import SourceSettings
from cdc.connect.source.slots.oldest_transaction import OldestTransaction
from cdc.connect.source.slots.standby import find_stranger
from cdc.core.errors import PreconditionError
from cdc.core.table import Column, Kind, Table
from cdc.log.clients.cluster import DescribedTopic
from cdc.log.clients.open_transactions import OpenTransaction
from cdc.run.doctor.check import registered_checks
from cdc.run.doctor.doctor import OF_SLOT_SERVER
from cdc.run.doctor.facts.access import SourceRoute
from cdc.run.doctor.facts.connect import WantedConnector
from cdc.run.doctor.facts.standby import StandbyFacts
from cdc.run.doctor.facts.store import StoreFacts
from cdc.run.doctor.facts.tables import TableSize
from cdc.run.doctor.facts.workers import WorkerPython, read_worker_python
from cdc.run.doctor.runner import examine, select_checks
from cdc.run.pipeline import Pipeline
from cdc.run.status.stream_report import CatalogReport
from cdc.sinks.opensearch.layout import MOST_FIELDS
from tests.unit.run.doctor.facts import (
    CONNECT,
    FOLDER,
    KAFKA,
    MACHINE,
    PLUGINS,
    RIGHTS,
    SEARCH,
    SLOT,
    SOURCE,
    STANDBY,
    TABLES,
    T,
    find,
    make_parts,
    make_settings,
    topics,
    with_role,
    with_server,
    with_setting,
    with_slot,
)

GID = {"gid": "it's", "database": "d", "owner": "o", "age": 4000}
HOLDER = OldestTransaction(77, "me", 0.0)
SESSION = {"pid": 77, "age": 4000, "application": "app"}
SIX = SourceRoute(frozenset({socket.AF_INET6}), offers_tls=True)
WIDE = Table(T, tuple(Column(f"c{n}", Kind.BIGINT) for n in range(MOST_FIELDS + 1)), ("c0",))
HUGE = TableSize(1 << 50, 100, is_guessed=False, width=50, owner="o", is_owned=True)


def in_store(block: str = "s3", **changes: Any) -> dict[str, Any]:
    return {"store": StoreFacts("s3://b/lake", block, **changes)}


def no_space(**changes: Any) -> dict[str, Any]:
    return {"machine": replace(MACHINE, lake=replace(FOLDER, **changes))}


def refused(name: str) -> dict[str, Any]:
    return {"wanted": WantedConnector({}, {name: ["it is refused"]})}


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "kafka.version": ({"brokers": (2, 4)}, "upgrade them to 2.5 or newer"),
    "kafka.acls": (
        {"rights": {"p.public.t": RIGHTS - {"READ"}, "p.latest.public.t": RIGHTS | {"WRITE"}}},
        "kafka-acls.sh --add --allow-principal User:… --operation READ --topic p.public.t",
    ),
    "kafka.hanging": (
        {"open": [OpenTransaction("p.public.t", 2, 7, 4000.0)]},
        "kafka-transactions.sh abort --topic p.public.t --partition 2 --start-offset 7",
    ),
    "spark.workers": ({"workers": WorkerPython("/py", (3, 8))}, "or leave spark.python out"),
    "search.fields": ({"tables": replace(TABLES, tables=[WIDE])}, "leave_out of follower search"),
    "source.pooler": ({"source": replace(SOURCE, replication_error=PreconditionError("no"))}, "not a pooler"),
    "source.balancer": ({"source": with_server(other_started=datetime(2026, 1, 1, tzinfo=UTC))}, "the primary's own"),
    "source.version": ({"source": with_server(version=140_000)}, "upgrade it to 15"),
    "source.ipv6": ({"source": replace(SOURCE, route=SIX)}, "connect.source_host"),
    "source.plaintext": ({"source": with_server(has_tls=False)}, "source.sslmode"),
    "source.round_trip": ({"source": with_server(round_trip=0.4)}, "nearer"),
    "source.clock": ({"source": with_server(clock_skew=-60.0)}, "NTP"),
    "postgres.wal_level": ({"source": with_setting("wal_level", "replica")}, "ALTER SYSTEM SET wal_level = logical"),
    "postgres.encoding": ({"source": with_setting("server_encoding", "SQL_ASCII")}, "ENCODING 'UTF8'"),
    "postgres.free_slots": (
        {"source": replace(with_setting("max_replication_slots", "1"), slots=[{**SOURCE.slots[0], "slot_name": "x"}])},
        "raise max_replication_slots",
    ),
    "postgres.free_senders": ({"source": replace(with_server(senders=19), slots=[])}, "raise max_wal_senders"),
    "postgres.slot_bound": ({"source": with_setting("max_slot_wal_keep_size", "-1")}, "what the disk can spare"),
    "postgres.slot_room": ({"source": with_setting("max_slot_wal_keep_size", "64")}, "raise max_slot_wal_keep_size"),
    "postgres.idle_slots": (
        {"source": with_setting("idle_replication_slot_timeout", "3600")},
        "set idle_replication_slot_timeout to 0",
    ),
    "postgres.sender_timeout": ({"source": with_setting("wal_sender_timeout", "0")}, "set wal_sender_timeout"),
    "postgres.prepared": ({"source": replace(SOURCE, prepared=[GID])}, "ROLLBACK PREPARED 'it''s'"),
    "postgres.old_transactions": ({"source": replace(SOURCE, transactions=[SESSION])}, "pg_terminate_backend(77)"),
    "postgres.spill": ({"source": with_slot(spilled=5 << 30)}, "raise logical_decoding_work_mem"),
    "postgres.durable": ({"source": with_setting("fsync", "off")}, "switch fsync on"),
    "postgres.free_sessions": ({"source": with_server(sessions=96)}, "max_connections"),
    "postgres.synchronous": (
        {"source": with_setting("synchronous_standby_names", 'ANY 1 ("a*", *)')},
        "to the application_name of each standby",
    ),
    "postgres.held_vacuum": (
        {"source": replace(SOURCE, readers=[{"pid": 7, "application": "standby1", "xmin_age": 90_000_000}])},
        "switch hot_standby_feedback off there",
    ),
    "slot.held": (
        {"source": replace(with_slot(retained=80 << 20), oldest=HOLDER, read_at=4000.0)},
        "end it: SELECT pg_terminate_backend(77)",
    ),
    "slot.reader_is_ours": (
        {
            "source": replace(with_slot(active_pid=7), readers=[{"pid": 7, "application": "psql", "xmin_age": None}]),
            "connect": replace(CONNECT, state=ConnectorState("cdc-p", "STOPPED")),
        },
        "end it: SELECT pg_terminate_backend(7)",
    ),
    "slot.others": (
        {"source": replace(SOURCE, slots=[SLOT, {**SLOT, "slot_name": "o", "database": "x", "retained": 5 << 30}])},
        "drop it if nobody comes back to it",
    ),
    "role.superuser": ({"source": with_role(rolsuper=True)}, "--role-sql"),
    "slot.kept": ({"source": with_slot(wal_status="lost", invalidation_reason="idle_timeout")}, "`cdc recapture`"),
    "slot.room": ({"source": with_slot(wal_status="unreserved", safe_wal_size=-9)}, "raise max_slot_wal_keep_size"),
    "slot.reader": ({"source": with_slot(active=False, idle_seconds=900)}, "`cdc bootstrap` starts"),
    "slot.ahead": (
        {
            "source": replace(
                with_setting("synchronized_standby_slots", ""),
                slots=[SLOT, {"slot_name": "standby_1", "slot_type": "physical"}],
                standbys=1,
            )
        },
        "ALTER SYSTEM SET synchronized_standby_slots = 'standby_1'",
    ),
    "standby.follows": (
        {"standby": replace(STANDBY, stranger=PreconditionError("s is of cluster 8", "name a standby of the source"))},
        "name a standby of the source",
    ),
    "standby.wal_level": (
        {"standby": replace(STANDBY, state=replace(STANDBY.state, wal_level="replica"))},
        "ALTER SYSTEM SET wal_level = logical",
    ),
    "standby.snapshots": ({"standby": replace(STANDBY, may_log=False)}, "pg_log_standby_snapshot() TO"),
    "triggers.publication": ({"source": with_server(roles=frozenset({"supabase_admin"}))}, "by `cdc bootstrap` only"),
    "tables.copy_time": ({"tables": replace(TABLES, sizes={T: HUGE}), "position": None}, "raise log.retention_hours"),
    "tables.text_columns": (
        {"tables": replace(TABLES, notices={"text_columns": [PreconditionError("view a.b: sums n", "choose double")]})},
        "choose double",
    ),
    "kafka.in_sync": (
        {"cluster": replace(KAFKA, topics={"p.public.t": DescribedTopic("p.public.t", 3, 3, lagging=1)})},
        "start the brokers",
    ),
    "kafka.auto_create": ({"cluster": replace(KAFKA, config={"auto.create.topics.enable": "true"})}, "set it to false"),
    "kafka.request_size": ({"cluster": replace(KAFKA, config={"socket.request.max.bytes": "1000000"})}, "lower"),
    "connect.version": ({"connect": replace(CONNECT, version="3.4.0")}, "upgrade"),
    "connect.debezium": ({"connect": replace(CONNECT, plugins={})}, "put it on plugin.path"),
    "connect.debezium_version": (
        {"connect": replace(CONNECT, plugins={**PLUGINS, next(iter(PLUGINS)): "2.7.3.Final"})},
        "put a newer one",
    ),
    "connect.our_classes": ({"connect": replace(CONNECT, plugins={})}, "`cdc plugin FOLDER`"),
    "connect.validates": (refused("snapshot.mode"), "correct the connect block"),
    "connect.exactly_once": (refused("exactly.once.support"), "exactly.once.source.support=enabled"),
    "connect.overrides": (refused("producer.override.linger.ms"), "override.policy=All"),
    "connect.connector": (
        {"connect": replace(CONNECT, state=ConnectorState("cdc-p", "RUNNING", ("FAILED",), "it broke"))},
        "`cdc bootstrap` starts it again",
    ),
    "spark.java": ({"machine": replace(MACHINE, java_error=PreconditionError("no java", "install a JDK"))}, "a JDK"),
    "spark.versions": (
        {"machine": replace(MACHINE, packages={**MACHINE.packages, "pyspark": "4.3.0"})},
        "pip install pyspark==",
    ),
    "spark.jars": ({"machine": replace(MACHINE, lacking_jars=("a.jar",))}, "fetches them"),
    "spark.memory": ({"machine": replace(MACHINE, memory_bytes=1 << 20)}, "lower it"),
    "lake.writable": (no_space(is_writable=False), "the right to write"),
    "lake.space": (no_space(free_bytes=1000), "make room"),
    "lake.inodes": (no_space(free_inodes=0.01), "remove small files"),
    "lake.file_system": (no_space(file_system="cifs"), "another file system"),
    "lake.distance": (no_space(file_system="nfs4"), "a disk of this machine"),
    "store.rights": (
        in_store(refused={"delete": PreconditionError("the store refuses a (403)", "check the keys")}),
        "check the keys",
    ),
    "store.put_if_absent": (in_store(heeds=False), "conditional writes"),
    "store.lifecycle": (in_store(expiry='expiry-date="tomorrow", rule-id="all"'), "take the lake's prefix out"),
    "store.versions": (in_store(is_versioned=True), "switch versions off"),
    "store.unseen_rules": (in_store("azure"), "look at the bucket's rules"),
    "catalog.kept": (
        {"catalog": CatalogReport(at=0, refused={"public.t": "no place"})},
        "tries again by itself",
    ),
    "search.product": ({"search": replace(SEARCH, distribution="elasticsearch", version="7.17.0")}, "Elasticsearch 8"),
    "search.refused": ({"search": replace(SEARCH, refused=2)}, "_search?q=kept:true"),
    "search.health": ({"search": replace(SEARCH, health="red")}, "allocation/explain"),
    "search.disk": ({"search": replace(SEARCH, disks={"node": 93.0})}, "make room"),
    "search.shards": ({"search": replace(SEARCH, shards=1000)}, "raise cluster.max_shards_per_node"),
    "machine.open_files": ({"machine": replace(MACHINE, open_files=256)}, "ulimit -n"),
    "machine.memory": ({"machine": replace(MACHINE, memory_bytes=1 << 20)}, "end what else"),
    "machine.time_zones": ({"machine": replace(MACHINE, has_zones=False)}, "install tzdata"),
    "machine.state": ({"machine": replace(MACHINE, state=replace(FOLDER, is_writable=False))}, "the right to write"),
    "machine.state_space": ({"machine": replace(MACHINE, state=replace(FOLDER, free_bytes=9))}, "make room"),
}
OF_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "kafka.plaintext": ({"log": {"security_protocol": "PLAINTEXT"}}, "log.security_protocol"),
    "kafka.single_copy": ({"log": {"replication_factor": 1}}, "log.replication_factor"),
    "connect.protected": ({"connect": {"url": "http://connect.example.com"}}, "rest.extension.classes"),
    "search.plaintext": (
        {"followers": {"search": {"kind": "search", "url": "http://search.example.com"}}},
        "https://",
    ),
}


NAMED: Final = {"host": "h", "dbname": "d", "user": "u", "password": "p", "tables": ["public.t"]}
OF_SESSIONS = {"source.dns", "source.tcp", "source.tls", "source.login", "source.database", "source.encoding"} | {
    "source.primary"
}
"""Checks that open one."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_by_facts(tmp_path: Path, name: str) -> None:
    changes, remedy = FAULTS[name]
    settings = make_settings(tmp_path)
    assert find(make_parts(settings), name) == []
    found = find(make_parts(settings, **changes), name)
    assert [each.check for each in found] == [name]
    assert remedy in found[0].problem.remedy


@pytest.mark.parametrize("name", OF_SETTINGS)
def test_a_fault_is_told_by_the_settings(tmp_path: Path, name: str) -> None:
    blocks, remedy = OF_SETTINGS[name]
    assert find(make_parts(make_settings(tmp_path)), name) == []
    found = find(make_parts(make_settings(tmp_path, **blocks)), name)
    assert [each.check for each in found] == [name]
    assert remedy in found[0].problem.remedy


@pytest.mark.parametrize("standby", [None, STANDBY], ids=["primary", "standby"])
def test_healthy_facts_have_no_findings(tmp_path: Path, standby: StandbyFacts | None) -> None:
    asked = [check for check in registered_checks() if check.name not in OF_SESSIONS]
    assert [each.check for each in examine(make_parts(make_settings(tmp_path), standby=standby), asked).findings] == []


def test_a_slot_is_looked_for_where_it_lives(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    elsewhere = {"source": replace(SOURCE, slots=[]), "standby": STANDBY}
    assert find(make_parts(settings, **elsewhere), "slot.there") == []
    lost = replace(STANDBY, slots=[{**SLOT, "wal_status": "lost", "invalidation_reason": "rows_removed"}])
    found = find(make_parts(settings, **{**elsewhere, "standby": lost}), "slot.kept")
    assert "hot_standby_feedback" in found[0].problem.remedy


def test_who_reads_a_slot_is_looked_for_where_it_lives(tmp_path: Path) -> None:
    """A session of the primary with the same number is somebody else's, and no statement for the primary ends it."""
    reader = {"pid": 7, "user": "reader", "application": "psql", "xmin_age": None}
    standby = replace(STANDBY, slots=[{**SLOT, "active_pid": 7}], readers=[reader])
    stranger = replace(SOURCE, slots=[], readers=[{**reader, "user": "stranger"}])
    rests = replace(CONNECT, state=ConnectorState("cdc-p", "STOPPED"))
    parts = make_parts(make_settings(tmp_path), source=stranger, standby=standby, connect=rests)
    [found] = find(parts, "slot.reader_is_ours")
    assert "user reader" in str(found.problem)
    assert found.check in OF_SLOT_SERVER


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 150_004}, "does not decode on a standby"),
        ({"identifier": 8}, "is of cluster 8"),
        ({"in_recovery": False}, "was promoted"),
        ({"in_recovery": False, "started": "of the primary"}, None),
    ],
    ids=["old", "of another cluster", "promoted", "the source itself"],
)
def test_a_server_that_is_no_standby_of_the_source_is_told(change: dict[str, Any], told: str | None) -> None:
    primary = replace(STANDBY.state, in_recovery=False, started="of the primary")
    source = SourceSettings.model_validate({**NAMED, "standby_host": "s"})
    error = find_stranger(primary, replace(STANDBY.state, **change), source)
    assert (error is None) if told is None else (error is not None and told in error.what)


def test_a_server_that_raises_its_level_by_itself_is_not_enough_for_debezium(tmp_path: Path) -> None:
    """Postgres 19: wal_level may stay replica."""
    source = with_setting("wal_level", "replica")
    source = replace(
        source, server=replace(source.server, settings={**source.server.settings, "effective_wal_level": "logical"})
    )
    found = find(make_parts(make_settings(tmp_path), source=source), "postgres.wal_level")
    assert "which Debezium does not take, though effective_wal_level is logical" in found[0].problem.what


def test_a_slot_near_its_budget_and_a_drop_without_a_limit_are_told(tmp_path: Path) -> None:
    full, boundless = with_slot(retained=60 << 20), with_setting("max_slot_wal_keep_size", "-1")
    named = make_settings(tmp_path, source={"slot_budget": {"max_wal_bytes": 64 << 20, "on_exceeded": "drop"}})
    unnamed = make_settings(tmp_path, source={"slot_budget": {"on_exceeded": "drop"}})
    [told] = find(make_parts(named, source=full), "slot.budget")
    assert "raise source.slot_budget.max_wal_bytes" in told.problem.remedy
    assert find(make_parts(named), "slot.budget") == find(make_parts(unnamed, source=full), "slot.budget") == []
    [told] = find(make_parts(unnamed, source=boundless), "slot.policy")
    assert "set max_wal_bytes beside it" in told.problem.remedy
    assert find(make_parts(named, source=boundless), "slot.policy") == find(make_parts(unnamed), "slot.policy") == []


def test_a_topic_that_is_bounded_by_size_is_told(tmp_path: Path) -> None:
    found = find(
        make_parts(make_settings(tmp_path), cluster=topics(**{"retention.bytes": "9"})), "kafka.retention_bytes"
    )
    assert "keeps 9 bytes" in found[0].problem.what


def test_another_python_on_this_machine_is_asked(tmp_path: Path) -> None:
    """One without our packages lacks them by the names under which they are installed."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    settings = make_settings(tmp_path)

    def named(python: str | None, master: str = "local[2]") -> WorkerPython | None:
        spark = settings.spark.model_copy(update={"python": python, "master": master})
        return read_worker_python(Pipeline(settings.model_copy(update={"spark": spark})))

    found = named(str(bare))
    assert found is not None
    assert found.version == sys.version_info[:2]
    assert {"opensearch-py", "psycopg[binary]"} <= {*found.lacking}
    [finding] = find(make_parts(settings, workers=found), "spark.workers")
    assert f"{bare} -m pip install" in finding.problem.remedy
    assert named(sys.executable) is named(None) is named(str(bare), "spark://host:7077") is None
    with pytest.raises(PreconditionError, match="is not there"):
        named(str(tmp_path / "none"))


def test_checks_are_chosen_by_name_and_by_category() -> None:
    chosen = [check.name for check in select_checks(["kafka.acls", "machine"])]
    assert chosen[0] == "kafka.acls"
    assert len(chosen) == 1 + len(select_checks(["machine"]))
