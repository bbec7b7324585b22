"""Faults of Kafka, Kafka Connect and the connector."""

from confluent_kafka import Producer

from cdc.connect.capture import connector
from cdc.connect.capture.connect_client import ConnectClient
from cdc.core.table import TableName
from cdc.log.clients.topics import Admin, Topic
from cdc.log.names import change_topic
from cdc.run.doctor.checks import kafka
from tests.servers.doctor.site import Planted, Site, Step, put_back, with_setting
from tests.servers.doctor.source_faults import bootstrap_anew, forget_all, remember
from tests.support.parts.ports import free_port
from tests.support.waiting import until

RIVAL = "doctor-rival"
BOOTSTRAP = "`cdc bootstrap` sets it anew"


PRODUCERS: dict[str, Producer] = {}
"""Those that have a transaction open, by its id."""
HANGING = kafka.HANGING_SECONDS


def topic_of(site: Site) -> str:
    return change_topic(site.settings.log.prefix, TableName("public", "t"))


def configure(name: str, value: str) -> Step:
    """The table's topic has this configuration, and no other."""

    def step(site: Site) -> None:
        with Admin(site.settings.log) as admin:
            admin.configure([Topic(topic_of(site), 1, config={name: value})])

    return step


def leave_open(site: Site) -> None:
    """A producer has written, and neither commits nor aborts; a second of that is long here."""
    id = f"doctor-{site.settings.pipeline.name}"
    producer = PRODUCERS[id] = Producer({"bootstrap.servers": site.settings.log.bootstrap, "transactional.id": id})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic_of(site), b"left open")
    producer.flush()
    kafka.HANGING_SECONDS = 1.0  # type: ignore[misc]
    until(lambda: bool(site.find("kafka.hanging")), "it is open for a second")


def abort(site: Site) -> None:
    PRODUCERS.pop(f"doctor-{site.settings.pipeline.name}").abort_transaction()


def forget_patience(_: Site) -> None:
    kafka.HANGING_SECONDS = HANGING  # type: ignore[misc]


def delete_topic(site: Site) -> None:
    with Admin(site.settings.log) as admin:
        admin.delete_wholly([topic_of(site)])


def make_state_topic(policy: str) -> Step:
    def step(site: Site) -> None:
        topic = Topic(f"{site.settings.pipeline.name}-connect-offsets", 1, config={"cleanup.policy": policy})
        with Admin(site.settings.log) as admin:
            admin.create([topic])
            admin.configure([topic])
            until(lambda: topic.name in admin.topics([topic.name]), "the topic is there")

    return step


def delete_state_topic(site: Site) -> None:
    with Admin(site.settings.log) as admin:
        admin.delete_wholly([f"{site.settings.pipeline.name}-connect-offsets"])


def make_rival(site: Site) -> None:
    """Another connector has our slot and our prefix; it is stopped, and so harms nobody."""
    with ConnectClient(site.settings.connect.url) as client:
        config, name = client.config(site.settings.connect.connector), RIVAL + site.settings.pipeline.name
        assert config
        client.make_stopped(name, {**config, "name": name})
        until(lambda: name in client.connectors(), "it is there")


def delete_rival(site: Site) -> None:
    with ConnectClient(site.settings.connect.url) as client:
        name = RIVAL + site.settings.pipeline.name
        client.delete(name)
        until(lambda: name not in client.connectors(), "it is gone")


def halt(site: Site) -> None:
    with ConnectClient(site.settings.connect.url) as client:
        connector.halt(client, site.settings.connect.connector)


def resume(site: Site) -> None:
    name = site.settings.connect.connector
    with ConnectClient(site.settings.connect.url) as client:
        client.resume(name)
        until(lambda: (found := client.status(name)) is not None and found.connector.state == "RUNNING", "it runs")
        until(lambda: bool((found := client.status(name)) and found.tasks), "its task is there")


LOG = (
    Planted(
        "kafka.answers",
        lambda site: site.change("log", bootstrap=f"127.0.0.1:{free_port()}"),
        "log.bootstrap",
        put_back,
    ),
    Planted("kafka.ours", forget_all, "choose another log.prefix", remember),
    Planted("kafka.brokers", with_setting("log", replication_factor=3), "lower log.replication_factor", put_back),
    Planted("kafka.partitions", with_setting("log", partitions=7), "set log.partitions back", put_back),
    Planted("kafka.topics_there", delete_topic, "`cdc bootstrap` makes it", bootstrap_anew),
    Planted(
        "kafka.topic_config", configure("cleanup.policy", "compact"), "`cdc bootstrap` sets it anew", bootstrap_anew
    ),
    Planted("kafka.topic_config", configure("retention.ms", "1000000"), "`cdc bootstrap` sets it anew", bootstrap_anew),
    Planted("kafka.hanging", leave_open, "kafka-transactions.sh abort", abort, after=forget_patience),
    Planted("kafka.min_insync", configure("min.insync.replicas", "2"), "`cdc bootstrap` sets it anew", bootstrap_anew),
    Planted(
        "kafka.retention_bytes",
        configure("retention.bytes", "100000000"),
        "set its retention.bytes to -1",
        configure("retention.bytes", "-1"),
    ),
)
CONNECT = (
    Planted(
        "connect.answers",
        lambda site: site.change("connect", url=f"http://127.0.0.1:{free_port()}"),
        "check connect.url",
        put_back,
    ),
    Planted("connect.secret", with_setting("connect", password_reference=None), "connect.password_reference", put_back),
    Planted(
        "connect.reaches_source",
        lambda site: site.change("connect", source_port=free_port()),
        "set connect.source_host, connect.source_port",
        put_back,
    ),
    Planted(
        "connect.drift",
        with_setting("connect", max_batch_size=777),
        "`cdc bootstrap` gives it",
        put_back,
        "max.batch.size",
    ),
    Planted("connect.connector", halt, "`cdc resume capture` lets it go on", resume),
    Planted("connect.one_reader", make_rival, "choose another source.slot", delete_rival),
    Planted("connect.one_writer", make_rival, "choose another log.prefix", delete_rival),
    Planted(
        "connect.own_topics",
        make_state_topic("delete"),
        "cleanup.policy to compact",
        make_state_topic("compact"),
        after=delete_state_topic,
    ),
)
