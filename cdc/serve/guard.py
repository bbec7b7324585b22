"""What is asked of each request before any answer, and said with each answer."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cdc.serve.tokens import Token

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
ELSEWHERE: Final = ("cross-site", "same-site")
"""What a browser says of requests that another page makes: it reads no answer, and may not make us work either."""
OPEN_PATHS: Final = ("/static/", "/session")
"""What a browser needs before it has its cookie."""


@dataclass(frozen=True, slots=True)
class Door:
    """Who may do what. `hosts`: the names by which this server is asked, without ports.

    `token`: None where nobody may act. `is_public`: reading needs the token as well, since others reach the address.
    """

    hosts: Collection[str]
    token: Token | None = None
    is_public: bool = False
    acts: bool = False
    cookie_name: str = field(default="cdc_session")

    def is_known(self, request: HTTPConnection) -> bool:
        """Has this browser shown the token?"""
        return self.token is not None and self.token.is_cookie(request.cookies.get(self.cookie_name))

    def may_read(self, request: HTTPConnection) -> bool:
        """A program, Prometheus say, reads with the token itself, as a bearer."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        is_bearer = self.token is not None and kind.lower() == "bearer" and self.token.is_given_by(given)
        return not self.is_public or is_bearer or self.is_known(request)

    def may_act(self, request: HTTPConnection) -> bool:
        return self.acts and self.is_known(request)


class Guard:
    """Refuses requests to other names (a page elsewhere that has its name point here: DNS rebinding), requests of other
    pages that change something, and those without the token that need it."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refuse(HTTPConnection(scope))
        await (refusal or self._app)(scope, receive, _with_headers(send))

    def _refuse(self, request: HTTPConnection) -> JSONResponse | None:
        host = request.headers.get("host", "")
        if _name(host) not in self._door.hosts:
            return refuse(421, "this server is not asked by that name; cdc serve --name NAME adds one")
        if (
            request.scope["method"] not in {"GET", "HEAD"}
            and urlsplit(request.headers.get("origin", "")).netloc != host
        ):
            return refuse(403, "only the page of this server may ask for that")
        path: str = request.url.path
        if path != "/" and request.headers.get("sec-fetch-site") in ELSEWHERE:
            return refuse(403, "only the page of this server may ask for that")
        if path != "/" and not path.startswith(OPEN_PATHS) and not self._door.may_read(request):
            return refuse(403, "open the address with the token, as cdc serve has printed it")
        return None


def refuse(status: int, why: str) -> JSONResponse:
    """An answer that says why not, in one line."""
    return JSONResponse({"error": why}, status)


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_headers
