"""The Kafka cluster, and the topics of the capture."""

from collections.abc import Iterator
from typing import Final

from cdc.connect.capture import topics
from cdc.core.errors import CdcError, PreconditionError
from cdc.log.clients.topics import Topic
from cdc.log.names import LATEST, kind_of_topic, offsets_topic
from cdc.log.settings import FRAME_BYTES
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.checks.source import is_local
from cdc.run.doctor.parts import AskedParts
from cdc.run.health.result import format_duration
from cdc.run.tables.capture_parts import list_topics

HANGING_SECONDS: Final = 900.0
"""`transaction.max.timeout.ms` of brokers: one that is older was not aborted by its coordinator."""
_OLDEST: Final = (2, 5)
_READING, _WRITING = frozenset({"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}), frozenset({"WRITE"})
_MEND: Final = "`cdc bootstrap` sets it anew"


def _wanted(parts: AskedParts) -> list[Topic]:
    try:
        return list_topics(parts.pipeline, parts.names)
    except PreconditionError:
        # two tables would share a topic, which is told of the tables
        return []


def _present(parts: AskedParts) -> dict[str, Topic]:
    """The topics that are there, of those that the capture needs."""
    there = parts.cluster.topics
    return {
        topic.name: Topic(topic.name, there[topic.name].partitions) for topic in _wanted(parts) if topic.name in there
    }


@check("kafka.answers", Severity.ERROR, "all changes go through it")
def find_cluster(parts: AskedParts) -> Iterator[Fault]:
    """The cluster answers, and lets us in."""
    _ = parts.cluster
    yield from ()


@check("kafka.plaintext", Severity.WARNING, "every change can be read, and changed, on its way")
def find_plaintext(parts: AskedParts) -> Iterator[Fault]:
    """A connection with another machine is encrypted."""
    log = parts.settings.log
    hosts = [address.strip().rpartition(":")[0] for address in log.bootstrap.split(",")]
    if "SSL" not in log.security_protocol and not all(map(is_local, hosts)):
        yield Fault(log.bootstrap, "the log is read and written in clear", "set log.security_protocol to SASL_SSL")


@check("kafka.brokers", Severity.ERROR, "the topics could not be made")
def find_missing_brokers(parts: AskedParts) -> Iterator[Fault]:
    """There are as many brokers as `log.replication_factor`."""
    brokers, wanted = parts.cluster.brokers, parts.settings.log.replication_factor
    if wanted > brokers:
        what = f"log.replication_factor is {wanted}, and the number of brokers {brokers}"
        yield Fault("log.replication_factor", what, "lower log.replication_factor, or start further brokers")


@check("kafka.single_copy", Severity.WARNING, "a broker that is lost takes changes with it that nothing else has")
def find_single_copies(parts: AskedParts) -> Iterator[Fault]:
    """A cluster of several brokers keeps more than one replica."""
    if parts.cluster.brokers > 1 and parts.settings.log.replication_factor == 1:
        yield Fault("log.replication_factor", "each change is on one broker only", "set log.replication_factor to 3")


@check("kafka.version", Severity.ERROR, "it cannot fence the transactions of an older task (KIP-447)")
def find_old_brokers(parts: AskedParts) -> Iterator[Fault]:
    """The brokers are of version 2.5 or newer."""
    version = parts.broker_version
    if version is not None and version < _OLDEST:
        found, oldest = (".".join(map(str, each)) for each in (version, _OLDEST))
        yield Fault("brokers", f"the brokers are of version {found}", f"upgrade them to {oldest} or newer")


@check("kafka.acls", Severity.ERROR, "the follower that reads or writes it ends with an error", at_bootstrap=False)
def find_missing_rights(parts: AskedParts) -> Iterator[Fault]:
    """Our principal may read each topic of the pipeline, and write those of latest logs."""
    log = parts.settings.log
    user = f"User:{log.username}" if log.username else "the principal of our client"
    for name, allowed in parts.topic_rights.items():
        needed = _READING | (_WRITING if kind_of_topic(log.prefix, name) == LATEST else frozenset())
        if lacking := sorted(needed - allowed):
            operations = " ".join(f"--operation {each}" for each in lacking)
            remedy = f"kafka-acls.sh --add --allow-principal User:{log.username or '…'} {operations} --topic {name}"
            yield Fault(name, f"{user} lacks {', '.join(lacking)} on topic {name}", remedy)


@check("kafka.hanging", Severity.WARNING, "who reads committed records waits there until it is aborted")
def find_hanging(parts: AskedParts) -> Iterator[Fault]:
    """No transaction in our topics is open for a quarter of an hour, which brokers allow at most."""
    for found in parts.open_transactions:
        if found.seconds >= HANGING_SECONDS:
            place = f"{found.topic}[{found.partition}]@{found.offset}"
            age = format_duration(found.seconds)
            abort = f"kafka-transactions.sh abort --topic {found.topic} --partition {found.partition}"
            what = f"a transaction that began at {place} is open for {age}"
            yield Fault(place, what, f"end its producer, or {abort} --start-offset {found.offset}")


@check("kafka.ours", Severity.ERROR, "followers would read what somebody else has written")
def find_foreign(parts: AskedParts) -> Iterator[Fault]:
    """Topics of our names are this pipeline's."""
    if parts.is_new:
        for name in _present(parts):
            what = f"topic {name} is there already and is not this pipeline's"
            yield Fault(name, what, "choose another log.prefix, or delete it")


@check(
    "kafka.partitions",
    Severity.ERROR,
    "keys would move to other partitions, or the order would be lost",
    at_bootstrap=False,
)
def find_repartitioned(parts: AskedParts) -> Iterator[Fault]:
    """Each topic has the partitions that settings and order ask for."""
    present = _present(parts) if parts.source.registered else {}
    for topic in _wanted(parts):
        try:
            topics.check_present([topic], present, ours=True)
        except CdcError as error:
            yield Fault.of(topic.name, error)


@check(
    "kafka.topics_there",
    Severity.ERROR,
    "the connector waits for ever for a topic that nobody makes",
    at_bootstrap=False,
)
def find_lost_topics(parts: AskedParts) -> Iterator[Fault]:
    """A pipeline that has begun has all its topics."""
    present = _present(parts)
    if parts.source.registered and parts.source.publication.row and present:
        for topic in _wanted(parts):
            if topic.name not in present:
                # Kafka Connect has a copy of its offsets
                kept = topic.name == offsets_topic(parts.settings.log.prefix)
                remedy = "`cdc bootstrap` makes it" + ("" if kept else "; what was in it is copied again")
                yield Fault(topic.name, f"topic {topic.name} is not there", remedy)


@check(
    "kafka.topic_config",
    Severity.WARNING,
    "changes are thrown away too early, or compacted, or too large ones are refused",
)
def find_drift(parts: AskedParts) -> Iterator[Fault]:
    """Retention, policy and sizes of each topic are as the `log` block says."""
    if parts.source.registered is None:
        return
    for topic in _wanted(parts):
        if (found := parts.cluster.topics.get(topic.name)) is None:
            continue
        if others := [name for name, value in topic.config.items() if found.config.get(name) != value]:
            told = ", ".join(f"{name}={found.config.get(name)}" for name in others)
            yield Fault(topic.name, f"topic {topic.name} has {told}", _MEND)


@check(
    "kafka.retention_bytes",
    Severity.WARNING,
    "changes are thrown away before their time, and then all tables are copied again",
)
def find_bounded_topics(parts: AskedParts) -> Iterator[Fault]:
    """No size bounds how long a topic keeps changes."""
    for name in _present(parts):
        kept = parts.cluster.topics[name].config.get("retention.bytes", "-1")
        if kept != "-1":
            what = f"topic {name} keeps {int(kept):,} bytes of a partition only"
            yield Fault(name, what, "set its retention.bytes to -1")


@check("kafka.in_sync", Severity.WARNING, "with one more broker lost, nothing can be written")
def find_lagging(parts: AskedParts) -> Iterator[Fault]:
    """All replicas of our topics are in sync, and each partition has a leader."""
    for name in _present(parts):
        topic = parts.cluster.topics[name]
        if topic.lagging or topic.leaderless:
            what = f"of topic {name}, {topic.lagging} partitions lack a replica, and {topic.leaderless} a leader"
            yield Fault(name, what, "start the brokers that are down; see their logs")


@check("kafka.min_insync", Severity.ERROR, "no producer could write with acks=all", at_bootstrap=False)
def find_unwritable(parts: AskedParts) -> Iterator[Fault]:
    """No topic asks for more replicas in sync than it has."""
    for name in _present(parts):
        topic = parts.cluster.topics[name]
        least = int(topic.config.get("min.insync.replicas", "1"))
        if topic.replicas and least > topic.replicas:
            what = f"topic {name} has {topic.replicas} replicas, and min.insync.replicas is {least}"
            yield Fault(name, what, f"{_MEND}, to log.replication_factor less one")


@check(
    "kafka.auto_create",
    Severity.WARNING,
    "a topic that is read before it is made has one partition, and no retention of ours",
)
def find_auto_creation(parts: AskedParts) -> Iterator[Fault]:
    """The brokers make no topics by themselves."""
    if parts.cluster.config.get("auto.create.topics.enable") == "true":
        yield Fault("brokers", "auto.create.topics.enable is true", "set it to false in the brokers' settings")


@check("kafka.request_size", Severity.ERROR, "the broker refuses a change of that size, and the capture ends")
def find_small_requests(parts: AskedParts) -> Iterator[Fault]:
    """A broker takes requests of `log.max_row_bytes`."""
    most = int(parts.cluster.config.get("socket.request.max.bytes", "104857600"))
    if parts.settings.log.max_row_bytes + FRAME_BYTES > most:
        what = (
            f"a broker takes requests of {most:,} bytes, and log.max_row_bytes is {parts.settings.log.max_row_bytes:,}"
        )
        yield Fault("log.max_row_bytes", what, "lower log.max_row_bytes, or raise socket.request.max.bytes")
