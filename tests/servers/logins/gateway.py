"""What stands before an OpenSearch in production: TLS with client certificates, and three logins, before the real node.

The node of the tests has no security plugin. What a domain of Amazon's, or a cluster with API keys, decides by a
request's headers, this decides: a signature is made anew by botocore and compared.
"""

import base64
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Self

import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.support.parts.authority import Authority
from tests.support.parts.tls_serving import serve_over_tls

USER, REGION = "writer", "eu-central-1"
ACCESS_KEY = "AKIDEXAMPLE"


@dataclass
class Gateway:
    """`secret`: USER's password, the API key, and the secret of ACCESS_KEY. `asked`: the logins that were let in."""

    authority: Authority
    node: str
    secret: str = "first"
    asked: list[str] = field(default_factory=list)
    port: int = 0
    pool: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(maxsize=16))

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @contextmanager
    def serving(self) -> Iterator[Self]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own = self.authority.issue("gateway", "localhost")
        context.load_cert_chain(own.certificate, own.key)
        context.load_verify_locations(self.authority.ca)
        context.verify_mode = ssl.CERT_REQUIRED
        # a client that is not let in ends its own thread, not that of the server
        with serve_over_tls(type("Handler", (_Handler,), {"gateway": self}), context) as self.port:
            try:
                yield self
            finally:
                self.pool.clear()

    def lets_in(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> bool:
        given = headers.get("Authorization", "")
        kind = given.split(" ")[0]
        pair = base64.b64encode(f"{USER}:{self.secret}".encode()).decode()
        wanted = {"ApiKey": f"ApiKey {self.secret}", "Basic": f"Basic {pair}"}
        if kind == "AWS4-HMAC-SHA256":
            wanted[kind] = self._sign(method, path, headers, body)
        is_right = bool(given) and given == wanted.get(kind)
        self.asked += [kind] if is_right else []
        return is_right

    def _sign(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> str:
        """The signature that the request has to have."""
        signed = headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
        names = {name.lower(): value for name, value in headers.items()}
        own = {name: names[name] for name in signed if name != "x-amz-date"}
        request = AWSRequest(method=method, url=f"{self.url}{path}", data=body, headers=own)
        request.context["timestamp"] = names["x-amz-date"]
        signer = SigV4Auth(Credentials(ACCESS_KEY, self.secret), "es", REGION)
        request.headers["X-Amz-Date"] = names["x-amz-date"]
        text = signer.string_to_sign(request, signer.canonical_request(request))
        return (
            f"AWS4-HMAC-SHA256 Credential={signer.scope(request)}, SignedHeaders={';'.join(signed)}, "
            f"Signature={signer.signature(text, request)}"
        )


class _Handler(BaseHTTPRequestHandler):
    """Answers one client; the class of a gateway has that gateway."""

    protocol_version = "HTTP/1.1"
    gateway: Gateway
    request: ssl.SSLSocket

    def handle(self) -> None:
        # here, in the client's own thread: one that has no certificate ends nothing else
        with suppress(OSError):
            self.request.do_handshake()
            super().handle()

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.gateway.lets_in(self.command, self.path, dict(self.headers), body):
            self._answer(401, b'{"error":"no"}', "application/json")
            return
        kept = {name: self.headers[name] for name in ("Content-Type", "Accept") if name in self.headers}
        to = self.gateway.node + self.path
        found = self.gateway.pool.request(self.command, to, body=body or None, headers=kept)
        self._answer(found.status, found.data, found.headers.get("Content-Type", ""))

    def _answer(self, code: int, content: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

    def log_message(self, format: str, *args: object) -> None:
        """Tests read what was asked from the gateway."""
