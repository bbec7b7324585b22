"""How Kafka Connect's REST interface is reached: the login, asked for again where it is refused, and TLS."""

import ssl
from collections.abc import Generator
from dataclasses import dataclass

import httpx
from pydantic import SecretStr

from cdc.connect.settings import CaptureSettings
from cdc.core.errors import ConfigurationError
from cdc.https import own_tls_context, tls_context
from cdc.secrets import renew, reveal


@dataclass(frozen=True, slots=True)
class RestAccess:
    """A login, and files of TLS; without them what stands in the URL, and whom the system believes."""

    username: str | None = None
    password: SecretStr | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    @classmethod
    def of(cls, capture: CaptureSettings) -> "RestAccess":
        return cls(*(getattr(capture, name) for name in cls.__slots__))

    def auth(self) -> httpx.Auth | None:
        """What a client logs in with."""
        return _RenewableLogin(self.username, self.password) if self.username is not None else None

    def context(self) -> ssl.SSLContext:
        """The TLS of a client. Raises ConfigurationError for a file that is none."""
        if not (self.ca_file or self.certificate_file):
            return tls_context()
        try:
            # a CA of one's own is the only one that is believed
            context = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else own_tls_context()
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file, password=lambda: b"")
        except (OSError, ssl.SSLError) as error:
            named = "connect.ca_file, connect.certificate_file or connect.key_file"
            raise ConfigurationError(f"{named} cannot be used: {error.strerror or error}", "name PEM files") from None
        return context


class _RenewableLogin(httpx.Auth):
    def __init__(self, username: str, password: SecretStr | None) -> None:
        self._username, self._password = username, password

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        tried = reveal(self._password)
        answer = yield next(httpx.BasicAuth(self._username, tried).auth_flow(request))
        if answer.status_code == httpx.codes.UNAUTHORIZED and renew(self._password, tried):
            yield next(httpx.BasicAuth(self._username, reveal(self._password)).auth_flow(request))
