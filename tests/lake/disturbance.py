"""A server between a client and an object store that spoils answers, as networks and busy stores do."""

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
    """What is done to the next PUTs of paths with `of` in them, and what was seen.

    `landing`: whether the store gets to see them. `answer`: the status that the client hears in place of the store's;
    None closes the connection.
    """

    times: int = 0
    of: str = ""
    answer: int | None = 500
    landing: bool = True
    instead: Callable[[], object] = lambda: None
    dropped: set[str] = field(default_factory=set)
    headers: set[str] = field(default_factory=set)
    asked: threading.Event = field(default_factory=threading.Event)

    def begins(self, method: str, path: str) -> bool:
        """Is this request one that is to be disturbed?"""
        run_disturbance = method == "PUT" and self.of in path and self.times > 0
        if method == "GET":
            self.asked.set()
        self.times -= run_disturbance
        return run_disturbance


@contextmanager
def run_disturbance(endpoint: str, what: Disturbance | None = None) -> Iterator[tuple[str, Disturbance]]:
    """An address that leads to the store at `endpoint`, and what happens on the way."""
    what = what or Disturbance()
    server = _Server(what, urlsplit(endpoint).netloc)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", what
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, what: Disturbance, store: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.what = what
        self.store = store


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Nothing is said."""

    def handle_one(self) -> None:
        what = self.server.what
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in what.dropped}
        what.headers |= {name.lower() for name in headers}
        run_disturbance = what.begins(self.command, self.path)
        if run_disturbance:
            what.instead()
        if not run_disturbance or what.landing:
            status, given, content = self._forward(headers, body)
        if run_disturbance:
            status, given, content = what.answer or 0, {}, b""
        if not status:
            self.close_connection = True
            return
        self._answer(status, given, content)

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
