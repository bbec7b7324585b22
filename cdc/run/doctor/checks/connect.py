"""Kafka Connect, its classes, and the connector."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from cdc.connect.capture.connector import check_has_debezium
from cdc.connect.fixed_properties import CONNECTOR_CLASS
from cdc.core.errors import PreconditionError
from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.checks.source import is_local
from cdc.run.doctor.parts import AskedParts, is_of_connect
from cdc.run.health.trouble import describe_trouble
from cdc.run.tables.preflight import describe_missing_plugins

_OLDEST_KAFKA: Final = (3, 6)
"""The first in which offsets can be deleted (KIP-875)."""
_OLDEST_DEBEZIUM: Final = (3, 0)
_EXACTLY_ONCE, _OVERRIDES, _SOURCE = "exactly.once.support", ".override.", "database."


@check("connect.answers", Severity.ERROR, "it runs the capture")
def find_worker(parts: AskedParts) -> Iterator[Fault]:
    """Kafka Connect's REST interface answers, and lets us in."""
    _ = parts.connect
    yield from ()


@check(
    "connect.version",
    Severity.ERROR,
    "a new capture forgets the offsets of an older one, which it cannot before Kafka 3.6",
)
def find_old_worker(parts: AskedParts) -> Iterator[Fault]:
    """It is of Kafka 3.6 or newer."""
    if _parse(version := parts.connect.version) < _OLDEST_KAFKA:
        yield Fault("workers", f"Kafka Connect is of Kafka {version}", "upgrade its workers")


@check("connect.debezium", Severity.ERROR, "it is what reads the slot")
def find_no_debezium(parts: AskedParts) -> Iterator[Fault]:
    """Debezium's connector for Postgres is on the plugin path."""
    try:
        check_has_debezium(parts.connect.plugins.keys())
    except PreconditionError as error:
        yield Fault.of(CONNECTOR_CLASS, error)


@check("connect.debezium_version", Severity.WARNING, "the properties that we set mean something else in older ones")
def find_old_debezium(parts: AskedParts) -> Iterator[Fault]:
    """Debezium is 3.0 or newer."""
    version = parts.connect.plugins.get(CONNECTOR_CLASS)
    if version and _parse(version) < _OLDEST_DEBEZIUM:
        yield Fault(CONNECTOR_CLASS, f"Debezium is {version}", "put a newer one on plugin.path")


@check(
    "connect.our_classes",
    Severity.WARNING,
    "Debezium alone loses digits, and changes where it is killed within a transaction; a moved slot is not noticed",
)
def find_no_classes(parts: AskedParts) -> Iterator[Fault]:
    """Our classes are beside Debezium's."""
    for lacking in describe_missing_plugins(parts.connect.plugins.keys()):
        yield Fault.of("plugin.path", lacking)


@check(
    "connect.protected",
    Severity.WARNING,
    "whoever reaches it reads every file of its workers, and the source's password",
)
def find_open_door(parts: AskedParts) -> Iterator[Fault]:
    """Its REST interface is on this machine, or asks for a login over HTTPS."""
    url = urlsplit(parts.settings.connect.url)
    if is_local(url.hostname or "") or (url.scheme == "https" and url.username):
        return
    lacks = "no login" if not url.username else "no HTTPS"
    remedy = "bind it to loopback, or give it a login (rest.extension.classes) and listeners=https://"
    yield Fault(url.hostname or "", f"Kafka Connect is reached over the network with {lacks}", remedy)


@check("connect.secret", Severity.WARNING, "it is stored in Kafka Connect's own topic, and its REST interface shows it")
def find_bare_password(parts: AskedParts) -> Iterator[Fault]:
    """The connector is given a reference to the source's password, not the password."""
    if parts.settings.connect.password_reference is None:
        remedy = "name a reference of Connect's config providers in connect.password_reference"
        yield Fault(
            "connect.password_reference", "the connector's configuration has the source's password in it", remedy
        )


def _refusals(parts: AskedParts, *signs: str) -> Iterator[tuple[str, str]]:
    """What Connect has against properties with one of these signs in their names; without a sign, the others."""
    for name, reasons in parts.wanted.refusals.items():
        own = [sign for sign in (_EXACTLY_ONCE, _OVERRIDES, _SOURCE) if sign in name]
        if own == [*signs] or (not signs and not own):
            yield name, "; ".join(reasons)


@check("connect.validates", Severity.ERROR, "the connector would not start", at_bootstrap=False)
def find_refused(parts: AskedParts) -> Iterator[Fault]:
    """Kafka Connect takes the connector's configuration."""
    for name, why in _refusals(parts):
        yield Fault(name, f"Kafka Connect refuses {name}: {why}", "correct the connect block of cdc.yaml")


@check("connect.exactly_once", Severity.ERROR, "a worker that is killed would write changes twice", at_bootstrap=False)
def find_at_least_once(parts: AskedParts) -> Iterator[Fault]:
    """Its workers have `exactly.once.source.support` enabled."""
    for name, why in _refusals(parts, _EXACTLY_ONCE):
        yield Fault(name, f"Kafka Connect: {why}", "set exactly.once.source.support=enabled on all its workers")


@check("connect.overrides", Severity.ERROR, "the producer would refuse large rows, and be slow", at_bootstrap=False)
def find_override_policy(parts: AskedParts) -> Iterator[Fault]:
    """Its workers let a connector set its producer's properties."""
    for name, why in _refusals(parts, _OVERRIDES):
        yield Fault(name, f"Kafka Connect refuses {name}: {why}", "set connector.client.config.override.policy=All")


@check("connect.reaches_source", Severity.ERROR, "the connector could not read the slot", at_bootstrap=False)
def find_unreached_source(parts: AskedParts) -> Iterator[Fault]:
    """Its workers reach the source, and get in."""
    for name, why in _refusals(parts, _SOURCE):
        remedy = "set connect.source_host, connect.source_port and connect.password_reference as its workers need them"
        yield Fault(name, f"Kafka Connect does not reach the source ({name}): {why}", remedy)


@check("connect.connector", Severity.ERROR, "nothing reads the slot", at_bootstrap=False)
def find_idle_connector(parts: AskedParts) -> Iterator[Fault]:
    """A pipeline that has begun has its connector, and it runs."""
    if not parts.source.registered or not parts.source.publication.row:
        return
    # an administrator may have made the publication, and no bootstrap the connector yet
    if parts.connect.state.state is None and not parts.has_copy:
        return
    if trouble := describe_trouble(parts.connect.state):
        yield Fault.of(parts.connect.state.name, trouble)


@check("connect.drift", Severity.WARNING, "the capture does other than the file says")
def find_drift(parts: AskedParts) -> Iterator[Fault]:
    """The connector has the configuration that a bootstrap would give it."""
    stored = parts.connect.stored
    if stored is None or parts.source.registered is None:
        return
    wanted = {**parts.wanted.config, "name": parts.settings.connect.connector}
    # names only: a value may be a secret
    if others := sorted(name for name in {*stored, *wanted} if stored.get(name) != wanted.get(name)):
        what = f"the connector has other values for {', '.join(others)}"
        yield Fault(parts.settings.connect.connector, what, "`cdc bootstrap` gives it the file's")


@check("connect.one_reader", Severity.ERROR, "of two that read one slot each gets a part of the changes")
def find_rivals(parts: AskedParts) -> Iterator[Fault]:
    """No other connector reads our slot of this database."""
    source = parts.settings.source
    for name, config in parts.connect.others.items():
        if config.get("slot.name") == source.slot and config.get("database.dbname") == source.dbname:
            yield Fault(
                name,
                f"connector {name} reads slot {source.slot}, too",
                f"delete connector {name}, or choose another source.slot",
            )


@check("connect.one_writer", Severity.ERROR, "followers would read the changes of another capture", at_bootstrap=False)
def find_same_prefix(parts: AskedParts) -> Iterator[Fault]:
    """No other connector writes topics of our prefix."""
    prefix = parts.settings.log.prefix
    for name, config in parts.connect.others.items():
        if config.get("topic.prefix") == prefix:
            yield Fault(
                name,
                f"connector {name} writes to topics of {prefix}, too",
                f"delete connector {name}, or choose another log.prefix",
            )


@check(
    "connect.own_topics",
    Severity.ERROR,
    "connectors and their offsets are forgotten when retention has passed",
    at_bootstrap=False,
)
def find_uncompacted(parts: AskedParts) -> Iterator[Fault]:
    """Kafka Connect's own topics are compacted."""
    for name, topic in parts.cluster.topics.items():
        if is_of_connect(name) and topic.config.get("cleanup.policy") != "compact":
            what = f"topic {name} has cleanup.policy={topic.config.get('cleanup.policy')}"
            yield Fault(name, what, "set its cleanup.policy to compact")


def _parse(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
