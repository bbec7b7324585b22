"""A cluster's address and login, as plain values that Spark can send to executors, and what clients are told."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from opensearchpy import Transport
from opensearchpy.exceptions import AuthenticationException
from opensearchpy.helpers.signer import AWSV4Signer
from pydantic import SecretStr

from cdc.core.errors import ConfigurationError
from cdc.secrets import renew, reveal
from cdc.sinks.opensearch.settings import AwsSettings, ClusterSettings


@dataclass(frozen=True, slots=True)
class Cluster:
    """The address of a cluster, with at most one of three logins: user and password, API key, Amazon's signature."""

    url: str
    username: str | None = None
    password: SecretStr | None = None
    api_key: SecretStr | None = None
    aws: AwsSettings | None = None
    ca_file: str | None = None
    certificate_file: str | None = field(default=None, repr=False)
    key_file: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: ClusterSettings) -> "Cluster":
        return cls(*(getattr(settings, name) for name in cls.__slots__))

    # a user and a password may stand in the url
    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    @property
    def who(self) -> str:
        """Who logs in, in messages."""
        if self.api_key or self.aws:
            return "this API key" if self.api_key else f"a request signed for {self.aws.region if self.aws else ''}"
        return f"user {self.username}" if self.username else "anybody without a user name"

    @property
    def settings_of_login(self) -> str:
        """The settings that say who logs in."""
        return "api_key" if self.api_key else "aws" if self.aws else "username and password"


def login_options(cluster: Cluster) -> dict[str, Any]:
    """The options of a client that logs in so. Raises ConfigurationError where the package that signs is missing."""
    options: dict[str, Any] = {
        "ca_certs": cluster.ca_file,
        "client_cert": cluster.certificate_file,
        "client_key": cluster.key_file,
    }
    given = {name: value for name, value in options.items() if value}
    if cluster.aws:
        return given | {"http_auth": _signer(cluster.aws)}
    if cluster.username is None and cluster.api_key is None:
        return given
    login = _Login(cluster)
    return given | {"http_auth": login, "transport_class": login.transport}


class _Login:
    """Makes the header of each request with the secret of now, and asks for another where a cluster refuses it."""

    def __init__(self, cluster: Cluster) -> None:
        self._username = cluster.username
        self._secret = cluster.api_key or cluster.password
        self._sent = reveal(self._secret)

    def __call__(self, method: str, url: str, body: Any) -> Mapping[str, str]:
        self._sent = reveal(self._secret)
        if self._username is None:
            return {"Authorization": f"ApiKey {self._sent}"}
        pair = base64.b64encode(f"{self._username}:{self._sent}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}

    def transport(self, *arguments: Any, **options: Any) -> Transport:
        return _RenewingTransport(self.renew, *arguments, **options)

    def renew(self) -> bool:
        return renew(self._secret, self._sent)


class _RenewingTransport(Transport):
    """Sends a request once more whose login is refused, if there is another secret by now."""

    def __init__(self, renewed: Callable[[], bool], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._renewed = renewed

    def perform_request(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().perform_request(*arguments, **options)
        except AuthenticationException:
            if not self._renewed():
                raise
            return super().perform_request(*arguments, **options)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Credentials as a signer takes them."""

    access_key: str
    secret_key: str
    token: str | None


def _signer(aws: AwsSettings) -> Callable[[str, str, Any], Mapping[str, str]]:
    try:
        from botocore.session import get_session
    except ImportError:
        raise ConfigurationError(
            "requests for Amazon's OpenSearch are signed by botocore, which is not installed",
            "pip install 'cdc-toolkit[aws]'",
        ) from None
    credentials: Any = (
        get_session().get_credentials()
        if aws.access_key_id is None
        else _Keys(reveal(aws.access_key_id), reveal(aws.secret_access_key), reveal(aws.session_token) or None)
    )
    if credentials is None:
        raise ConfigurationError(
            "botocore finds no credentials for Amazon's OpenSearch", "set aws.access_key_id, or name a profile to it"
        )
    signer = AWSV4Signer(credentials, aws.region, aws.service)
    return lambda method, url, body: signer.sign(method, url, body)
