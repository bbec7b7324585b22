"""A search node that fails as it is told to: a proxy in front of a real one."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

Fault = Callable[[bytes], tuple[int, Any] | None]


class Faulty:
    """A way to the node that fails as it is told to: `fault` sees each bulk request and may answer in its place.

    So does `search_fault` with each search.
    """

    def __init__(self, url: str, fault: Fault = lambda body: None, search_fault: Fault = lambda body: None) -> None:
        self.url, self.fault, self.search_fault = url, fault, search_fault
        self.sizes: list[int] = []
        self.asked: list[str] = []
        """Method and path of every request."""

    @contextmanager
    def listening(self) -> Iterator[str]:
        faulty = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, answer = faulty.answer(self.command, self.path, body, self.headers.get("Content-Type", ""))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer if self.command != "HEAD" else b"")

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

            def log_message(self, format: str, *args: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()

    def answer(self, method: str, path: str, body: bytes, kind: str) -> tuple[int, bytes]:
        self.asked.append(f"{method} {path.partition('?')[0]}")
        fault = None
        if "_bulk" in path:
            self.sizes.append(len(body))
            fault = self.fault(body)
        elif "/_search" in path:
            fault = self.search_fault(body)
        if fault:
            return fault[0], json.dumps(fault[1]).encode()
        found = httpx.request(method, self.url + path, content=body, headers={"Content-Type": kind} if body else {})
        return found.status_code, found.content


def items(body: bytes, status: int) -> dict[str, Any]:
    error = {"type": "rejected", "reason": "queue is full"}
    documents = body.count(b'"_id"')
    return {"errors": True, "items": [{"index": {"status": status, "error": error}}] * documents}
