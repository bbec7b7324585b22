"""Logins at Kafka, by each client of the log: librdkafka's readers, writers and administrators, and Java's in Spark."""

import secrets
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.log import spark_options
from cdc.log.client_options import OPTIONS as ALLOWED
from cdc.log.clients.cluster import read_cluster
from cdc.log.clients.reader import Reader
from cdc.log.clients.single_write import write_record
from cdc.log.clients.topics import Admin, Topic
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.settings import LogSettings
from cdc.run.spark.token_urls import let_ask_for_tokens
from cdc.secrets import RenewableSecret
from cdc.sinks.latest.write import write
from tests.servers.logins.conftest import Scram
from tests.servers.logins.kafka_logins import by_certificate, by_password, by_token
from tests.servers.logins.token_server import TokenServer
from tests.support.further import further
from tests.support.parts.authority import Identity
from tests.support.parts.secured import PLAIN_USER, Secured

SCRAM_USER = f"s{secrets.token_hex(4)}"
WORD = f"canary{secrets.token_hex(6)}"


@pytest.fixture(scope="module")
def identity(secured: Secured) -> Identity:
    return secured.authority.issue("kafka-client")


@pytest.fixture(scope="module")
def logins(secured: Secured, identity: Identity, scram: Scram, tokens: TokenServer) -> dict[str, LogSettings]:
    scram.set_password(SCRAM_USER, WORD)
    return {
        "certificate": by_certificate(secured, identity),
        "PLAIN": by_password(secured, "PLAIN", PLAIN_USER, SecretStr(secured.ports.plain_password)),
        "SCRAM-SHA-256": by_password(secured, "SCRAM-SHA-256", SCRAM_USER, SecretStr(WORD)),
        "SCRAM-SHA-512": by_password(secured, "SCRAM-SHA-512", SCRAM_USER, SecretStr(WORD)),
        "OAUTHBEARER": by_token(secured, SecretStr(tokens.secret)),
    }


@pytest.mark.parametrize(
    "login", ["certificate", "PLAIN", further("SCRAM-SHA-256", "SCRAM-SHA-256"), "SCRAM-SHA-512", "OAUTHBEARER"]
)
def test_every_client_logs_in(login: str, logins: dict[str, LogSettings], spark: SparkSession) -> None:
    log, topic = logins[login], f"login-{secrets.token_hex(4)}"
    with Admin(log) as admin:
        admin.create([Topic(topic, 1)])
        write_record(log, topic, b"a", b"1")
        with TransactionalWriter(log, topic) as writer, writer.transaction() as transaction:
            transaction.write(topic, b"b", b"2")
        let_ask_for_tokens(spark, log)
        write(spark.createDataFrame([(b"c", b"3")], "key binary, value binary"), log, topic, "cdc")
        found = spark.read.format("kafka").options(
            **spark_options.read_options(log), subscribe=topic, startingOffsets="earliest"
        )
        assert [bytes(row[0]) for row in found.load().sort("offset").select("key").collect()] == [b"a", b"b", b"c"]
        assert topic in read_cluster(log, topic.__eq__).topics
        with Reader(log) as reader:
            # behind three records and the end of a transaction
            assert reader.end([topic]) == {topic: {0: 4}}
        admin.delete([topic])


def test_java_knows_every_option_that_it_is_told(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    # a producer has no rack, and is told of it for nothing
    known = set(jvm.org.apache.kafka.clients.consumer.ConsumerConfig.configNames())
    assert {option.java for option in ALLOWED.values() if option.java} - known == set()


@pytest.mark.parametrize("login", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_long_lived_reader_goes_on_after_a_rotation(
    login: str, secured: Secured, scram: Scram, tokens: TokenServer, tmp_path: Path
) -> None:
    user, secret = f"r{secrets.token_hex(4)}", tmp_path / "secret"
    secret.write_text(tokens.secret)
    rotating = RenewableSecret(secret.read_text(), secret.read_text)

    def rotate(new: str) -> None:
        secret.write_text(new)
        if login == "OAUTHBEARER":
            tokens.secret = new
        else:
            scram.set_password(user, new)

    rotate(tokens.secret)
    log = by_token(secured, rotating) if login == "OAUTHBEARER" else by_password(secured, login, user, rotating)
    topic = f"login-{secrets.token_hex(4)}"
    with Admin(log) as admin, Reader(log) as reader:
        admin.create([Topic(topic, 1)])
        assert reader.end([topic]) == {topic: {0: 0}}
        rotate(f"new-{secrets.token_hex(4)}")
        # who logs in from now on is refused with what it knows, and asks
        if login == "OAUTHBEARER":
            with pytest.raises(UnreachableError, match="a secret that has changed since"):
                read_cluster(log, bool, 2)
        write_record(log, topic, b"a", b"1")
        assert reader.end([topic]) == {topic: {0: 1}}
        admin.delete([topic])
    assert rotating.get_secret_value() == secret.read_text()


def test_who_is_refused_is_told_what_to_correct(
    secured: Secured, identity: Identity, tokens: TokenServer, scram: Scram
) -> None:
    scram.set_password(SCRAM_USER, WORD)
    strange = by_certificate(secured, identity, ca_file=str(identity.certificate))
    unknown = by_certificate(secured, identity, certificate_file=None, key_file=None)
    wrong = by_password(secured, "SCRAM-SHA-256", SCRAM_USER, SecretStr("wrong"))
    told = {
        r"cannot be used: .*certificate verify failed.*log block": strange,
        r"refuses our certificate.*log\.certificate_file": unknown,
        r"cannot be used: .*uthentication failed.*log block": wrong,
    }
    for why, log in told.items():
        with pytest.raises(PreconditionError, match=why):
            read_cluster(log, bool, 1)
    with pytest.raises(CdcError, match=r"token|OAUTHBEARER"):
        read_cluster(by_token(secured, SecretStr("wrong")), bool, 1)


def test_an_expired_certificate_is_told(secured: Secured) -> None:
    expired = secured.authority.issue("expired", days=-1)
    with pytest.raises(PreconditionError, match=r"refuses our certificate.*is it valid"):
        read_cluster(by_certificate(secured, expired), bool, 1)
