"""What librdkafka and Kafka's Java clients are told of one login, and which options both take."""

from typing import Any

import pytest
from confluent_kafka import Producer
from pydantic import ValidationError

from cdc.log.client_options import OPTIONS, find_refusal
from cdc.log.logins import java_options, librdkafka_options
from cdc.log.settings import LogSettings

TOKEN = {
    "token_url": "https://t/token",
    "client_id": "c",
    "client_secret": 's"\\',
    "scope": "s",
    "extensions": {"a": "b"},
}
SAMPLES = {"client.rack": "r", "client.dns.lookup": "use_all_dns_ips", "broker.address.family": "v4"}
SAMPLES |= {"ssl.endpoint.identification.algorithm": "none"}


def settings(**values: Any) -> LogSettings:
    return LogSettings.model_validate({"bootstrap": "k:9092", **values})


def test_librdkafka_knows_every_option_that_may_be_set() -> None:
    sample = {name: SAMPLES.get(name, "true" if name.endswith(("enable", "disable")) else "2000") for name in OPTIONS}
    assert [name for name, value in sample.items() if find_refusal(name, value)] == []
    Producer({**sample, "logger": __import__("logging").getLogger("cdc.kafka")})


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("enable.idempotence", "false", "the order depends on it"),
        ("sasl.password", "x", "has a setting of its own: log.password"),
        ("sasl.oauthbearer.scope", "x", "has a setting of its own: log.oauth"),
        ("ssl.cipher.suites", "x", "Java clients have no such thing"),
        ("broker.address.family", "v5", "is none of any, v4, v6"),
    ],
)
def test_an_option_that_not_all_clients_take_is_refused(name: str, value: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        settings(client_options={name: value})


def test_java_is_told_what_librdkafka_is() -> None:
    options = {"socket.timeout.ms": "9000", "socket.keepalive.enable": "true"}
    options |= {"ssl.endpoint.identification.algorithm": "none"}
    log = settings(security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", oauth=TOKEN, client_options=options)
    ours, java = librdkafka_options(log), java_options(log)
    assert options.items() <= ours.items()
    assert (java["request.timeout.ms"], java["ssl.endpoint.identification.algorithm"]) == ("9000", "")
    assert "socket.keepalive.enable" not in java
    assert (ours["sasl.oauthbearer.client.secret"], ours["sasl.oauthbearer.extensions"]) == ('s"\\', "a=b")
    assert 'clientSecret="s\\"\\\\" scope="s" extension_a="b";' in java["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"security_protocol": "SASL_SSL"}, "does not fit security_protocol"),
        ({"sasl_mechanism": "PLAIN", "username": "u", "password": "p"}, "does not fit sasl_mechanism"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "username": "u"},
            "is required for SCRAM",
        ),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "is required for OAUTHBEARER"),
        ({"oauth": TOKEN}, "used for nothing else"),
        ({"ca_file": "ca.pem"}, "is of TLS"),
        ({"security_protocol": "SSL", "certificate_file": "c.pem"}, "a certificate and its key go together"),
    ],
)
def test_what_does_not_fit_is_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        settings(**values)
