"""Gives out tokens by OAuth's client credentials (RFC 6749, 4.4), over HTTPS."""

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Self
from urllib.parse import parse_qs, unquote_plus

from tests.support.parts.authority import Authority
from tests.support.parts.tls_serving import serve_over_tls

CLIENT, SCOPE = "cdc", "kafka"


@dataclass
class TokenServer:
    """`secret`: what it takes from CLIENT now. `asked`: the scopes of all tokens that it gave out."""

    authority: Authority
    port: int
    secret: str = "first"
    asked: list[str] = field(default_factory=list)
    refused: int = 0

    @contextmanager
    def serving(self) -> Iterator[Self]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own = self.authority.issue("tokens", "localhost")
        context.load_cert_chain(own.certificate, own.key)
        with serve_over_tls(_handler(self), context, self.port):
            yield self

    def answer(self, authorization: str, body: str) -> tuple[int, dict[str, object]]:
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        if not self._lets_in(authorization, asked) or asked.get("grant_type") != "client_credentials":
            self.refused += 1
            return 401, {"error": "invalid_client"}
        self.asked.append(asked.get("scope", ""))
        token = self.authority.token(CLIENT, asked.get("scope", "").split())
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": 600}

    def _lets_in(self, authorization: str, asked: dict[str, str]) -> bool:
        given = (asked.get("client_id", ""), asked.get("client_secret", ""))
        if authorization.startswith("Basic "):
            user, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            given = unquote_plus(user), unquote_plus(secret)
        return given == (CLIENT, self.secret)


def _handler(server: TokenServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            code, answer = server.answer(self.headers.get("Authorization", ""), body)
            content = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Tests read what was asked from the server."""

    return Handler
