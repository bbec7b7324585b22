"""A server between a client and an object store that spoils responses, as networks and busy stores do."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

NOT_HANDED_ON = {"transfer-encoding", "connection", "content-length", "date", "server"}


@dataclass
class Disturbance:
    """Disturbs the next PUTs of paths that contain `of`, and records requests.

    `landing`: whether the store gets the disturbed requests. `answer`: the status for the client instead of the
    store's; None closes the connection. `added`: headers of all answers.
    """

    times: int = 0
    of: str = ""
    answer: int | None = 500
    landing: bool = True
    instead: Callable[[], object] = lambda: None
    added: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    headers: set[str] = field(default_factory=set)
    asked: threading.Event = field(default_factory=threading.Event)

    def begins(self, method: str, path: str) -> bool:
        """Whether to disturb this request."""
        run_disturbance = method == "PUT" and self.of in path and self.times > 0
        if method == "GET":
            self.asked.set()
        self.times -= run_disturbance
        return run_disturbance


@contextmanager
def run_disturbance(endpoint: str, disturbance: Disturbance | None = None) -> Iterator[tuple[str, Disturbance]]:
    """Run the server before the store at `endpoint`; yields its address and the disturbance."""
    disturbance = disturbance or Disturbance()
    server = _Server(disturbance, urlsplit(endpoint).netloc)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", disturbance
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, disturbance: Disturbance, store: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.disturbance = disturbance
        self.store = store


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Nothing is said."""

    def handle_one(self) -> None:
        disturbance = self.server.disturbance
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in disturbance.dropped}
        disturbance.headers |= {name.lower() for name in headers}
        is_disturbed = disturbance.begins(self.command, self.path)
        if is_disturbed:
            disturbance.instead()
        if not is_disturbed or disturbance.landing:
            status, given, content = self._forward(headers, body)
        if is_disturbed:
            status, given, content = disturbance.answer or 0, {}, b""
        if not status:
            self.close_connection = True
            return
        self._answer(status, {**given, **disturbance.added}, content)

    def _forward(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection(self.server.store)
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            given = {name: value for name, value in answer.getheaders() if name.lower() not in NOT_HANDED_ON}
            return answer.status, given, answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one
