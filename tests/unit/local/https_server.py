"""An HTTPS server on this machine whose certificate comes from an authority that nobody else knows."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trustme

from tests.support.parts.tls_serving import serve_over_tls


@dataclass
class Answers:
    """What is answered to which path, several of them one after the other; the last one stays."""

    authority: trustme.CA = field(default_factory=trustme.CA)
    by_path: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def put(self, path: str, *answers: tuple[int, bytes]) -> None:
        self.by_path[path] = list(answers)

    def next(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        answers = self.by_path.get(path, [(404, b"")])
        return answers.pop(0) if len(answers) > 1 else answers[0]


@contextmanager
def serving(answers: Answers) -> Iterator[None]:
    """The server, for as long as the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = answers.next(self.path)
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Tests read what was asked from `answers`."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    answers.authority.issue_cert("localhost").configure_cert(context)
    with serve_over_tls(Handler, context, is_patient=False) as port:
        answers.url = f"https://localhost:{port}"
        yield


@pytest.fixture
def https() -> Iterator[Answers]:
    """A server that nobody trusts yet."""
    answers = Answers()
    with serving(answers):
        yield answers


def known_by_nobody(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A machine whose store is an empty folder, and whose environment names no certificates."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    empty = folder / "no certificates"
    empty.mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(empty / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(empty))


def authority_file(answers: Answers, folder: Path) -> str:
    """The authority's certificate as a file."""
    file = folder / "authority.pem"
    answers.authority.cert_pem.write_to_path(str(file))
    return str(file)
