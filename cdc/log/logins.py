"""A login at Kafka, as librdkafka and as Kafka's Java clients are told it."""

from pathlib import Path
from typing import Any, Final

from cdc.log.client_options import to_java
from cdc.log.settings import LogSettings, OAuthSettings
from cdc.secrets import reveal

_SECURITY: Final = "org.apache.kafka.common.security"
_MODULES: Final = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule",
}
TOKEN_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"  # noqa: S105 - a name
"""The property of Java without which Kafka's clients ask no server for a token (since 3.9.1)."""


def librdkafka_options(log: LogSettings) -> dict[str, Any]:
    """The options of a client of librdkafka."""
    options: dict[str, Any] = {
        "security.protocol": log.security_protocol,
        "sasl.mechanism": log.sasl_mechanism,
        "ssl.ca.location": log.ca_file,
        "ssl.certificate.location": log.certificate_file,
        "ssl.key.location": log.key_file,
        "ssl.key.password": reveal(log.key_password),
        **log.client_options,
    }
    if log.oauth:
        options |= _ask_for_tokens(log.oauth)
    elif log.sasl_mechanism:
        options |= {"sasl.username": log.username, "sasl.password": reveal(log.password)}
    return {name: value for name, value in options.items() if value}


def _ask_for_tokens(oauth: OAuthSettings) -> dict[str, Any]:
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": oauth.token_url,
        "sasl.oauthbearer.client.id": oauth.client_id,
        "sasl.oauthbearer.client.secret": reveal(oauth.client_secret),
        "sasl.oauthbearer.scope": oauth.scope,
        "sasl.oauthbearer.extensions": ",".join(f"{name}={value}" for name, value in oauth.extensions.items()),
        "https.ca.location": oauth.ca_file,
    }


def java_options(log: LogSettings) -> dict[str, str]:
    """The options of a client of Java. What files hold is in them: executors on other machines need no file."""
    options = {"security.protocol": log.security_protocol, **_java_tls(log), **to_java(log.client_options)}
    if log.sasl_mechanism:
        options |= {"sasl.mechanism": log.sasl_mechanism, "sasl.jaas.config": _write_jaas(log)}
    if log.oauth:
        options |= {
            "sasl.login.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": log.oauth.token_url,
        }
    return options


def _java_tls(log: LogSettings) -> dict[str, str]:
    options = dict[str, str]()
    if log.ca_file:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _read(log.ca_file)}
    if log.certificate_file and log.key_file:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _read(log.certificate_file),
            "ssl.keystore.key": _read(log.key_file),
        }
    return options | ({"ssl.key.password": reveal(log.key_password)} if log.key_password else {})


def _write_jaas(log: LogSettings) -> str:
    if log.oauth:
        given = {"clientId": log.oauth.client_id, "clientSecret": reveal(log.oauth.client_secret)}
        given |= {"scope": log.oauth.scope} if log.oauth.scope else {}
        given |= {f"extension_{name}": value for name, value in log.oauth.extensions.items()}
        if log.oauth.ca_file:
            given |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _read(log.oauth.ca_file)}
    else:
        given = {"username": log.username or "", "password": reveal(log.password)}
    told = " ".join(f'{name}="{_escape(value)}"' for name, value in given.items())
    return f"{_MODULES[log.sasl_mechanism or '']} required {told};"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


def _read(file: str) -> str:
    return Path(file).read_text(encoding="ascii")
