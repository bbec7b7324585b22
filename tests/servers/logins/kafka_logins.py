"""The `log` block for each login that the broker takes."""

from typing import Any

from pydantic import SecretStr

from cdc.log.settings import LogSettings, OAuthSettings
from tests.servers.logins.token_server import CLIENT, SCOPE
from tests.support.parts.authority import Identity
from tests.support.parts.secured import Secured

OPTIONS = {"client.rack": "r1", "socket.keepalive.enable": "true", "retry.backoff.ms": "120"}


def by_certificate(secured: Secured, identity: Identity, **further: Any) -> LogSettings:
    files = {"certificate_file": str(identity.certificate), "key_file": str(identity.key)}
    values = {"ca_file": str(secured.authority.ca), **files, "client_options": OPTIONS, **further}
    return LogSettings(bootstrap=f"127.0.0.1:{secured.ports.certified}", security_protocol="SSL", **values)


def by_password(secured: Secured, mechanism: str, user: str, password: SecretStr) -> LogSettings:
    return LogSettings(
        bootstrap=f"127.0.0.1:{secured.ports.login}",
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        username=user,
        password=password,
        ca_file=str(secured.authority.ca),
    )


def by_token(secured: Secured, secret: SecretStr) -> LogSettings:
    oauth = OAuthSettings(
        token_url=secured.token_url,
        client_id=CLIENT,
        client_secret=secret,
        scope=SCOPE,
        ca_file=str(secured.authority.ca),
    )
    return LogSettings(
        bootstrap=f"127.0.0.1:{secured.ports.login}",
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        oauth=oauth,
        ca_file=str(secured.authority.ca),
    )
