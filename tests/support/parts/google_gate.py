"""The part of Google's XML interface that fake-gcs-server lacks, before one: its own JSON interface does the work.

Objects are written (PUT, and uploads in parts) by its `uploadType=multipart`; the condition that the client sends
becomes its `ifGenerationMatch`, so that the emulator decides who was first. Everything else is handed on as it came. A
request must be signed by the key of the test's service account.

A process of its own: some clients hold Python's lock while they wait for an answer.
"""

import base64
import json
import sys
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

CONTROL: Final = "/-gate/"
HEEDLESS: Final = "heedless"
_HOP: Final = {"transfer-encoding", "connection", "content-length", "date", "server"}
_CONDITION: Final = "x-goog-if-generation-match"


@dataclass
class Gate:
    """What the gate knows.

    `heeds_no_condition`: it writes by `uploadType=media`, where this version of the emulator overlooks conditions.
    """

    behind: str
    key: RSAPublicKey
    uploads: dict[str, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    conditions: set[str] = field(default_factory=set)
    heeds_no_condition: bool = False

    def is_signed(self, authorization: str | None) -> bool:
        """Is this bearer token one of the service account?"""
        token = (authorization or "").removeprefix("Bearer ")
        content, _, signature = token.rpartition(".")
        try:
            raw = base64.urlsafe_b64decode(signature + "==")
            self.key.verify(raw, content.encode(), PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return False
        return True


def main(port: str, behind: str, key: str) -> None:
    """Serve on a port, before the emulator at `host:port`; `key`: a file with the service account's public key."""
    public = serialization.load_pem_public_key(Path(key).read_bytes())
    assert isinstance(public, RSAPublicKey)
    handler = type("_GateOf", (_Handler,), {"gate": Gate(behind, public)})
    ThreadingHTTPServer(("127.0.0.1", int(port)), handler).serve_forever()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gate: Gate

    def log_message(self, *_: object) -> None:
        """Nothing is said."""

    def handle_one(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path.startswith(CONTROL):
            self._tell(self.path.removeprefix(CONTROL))
            return
        if not self.gate.is_signed(self.headers.get("authorization")):
            self._answer(401, {}, b"<Error><Code>AuthenticationRequired</Code></Error>")
            return
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        bucket, _, name = urlsplit(self.path).path.lstrip("/").partition("/")
        if "uploads" in query:
            self._answer(200, {}, _xml("InitiateMultipartUploadResult", UploadId=uuid.uuid4().hex))
        elif upload := query.get("uploadId"):
            self._continue_upload(upload[0], query, body, bucket, name)
        elif self.command == "PUT":
            self._write(bucket, unquote(name), body, self.headers.get(_CONDITION))
        else:
            self._hand_on(self.path, body)

    def _tell(self, wish: str) -> None:
        """Take a wish of the test's, and say which conditions were sent."""
        self.gate.heeds_no_condition = wish == HEEDLESS
        self._answer(200, {}, json.dumps(sorted(self.gate.conditions)).encode())

    def _continue_upload(self, upload: str, query: dict[str, list[str]], body: bytes, bucket: str, name: str) -> None:
        parts = self.gate.uploads[upload]
        if self.command == "PUT":
            parts[int(query["partNumber"][0])] = body
            self._answer(200, {"etag": '"part"'}, b"")
            return
        whole = b"".join(parts[number] for number in sorted(parts))
        del self.gate.uploads[upload]
        if self.command == "DELETE":
            self._answer(204, {}, b"")
        else:
            self._write(bucket, unquote(name), whole, None)

    def _write(self, bucket: str, name: str, body: bytes, condition: str | None) -> None:
        """One object, by the emulator's JSON interface; the answer as the XML one gives it."""
        if condition is not None:
            self.gate.conditions.add(condition)
        wish = "" if condition is None else f"&ifGenerationMatch={condition}"
        path = f"/upload/storage/v1/b/{bucket}/o?name={quote(name, safe='')}{wish}&uploadType="
        if self.gate.heeds_no_condition:
            status, _, content = self._ask("POST", f"{path}media", body, {})
        else:
            kind, parts = _in_parts(name, body)
            status, _, content = self._ask("POST", f"{path}multipart", parts, {"content-type": kind})
        if status != 200:
            self._answer(status, {}, content)
            return
        made = json.loads(content)
        own = {"etag": made["etag"], "x-goog-generation": made["generation"]}
        self._answer(200, own, _xml("CompleteMultipartUploadResult", ETag=made["etag"]))

    def _hand_on(self, path: str, body: bytes) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "authorization")}
        status, given, content = self._ask(self.command, path, body, headers)
        self._answer(status, given, content)

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection(self.gate.behind)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, _headers(answer), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        length = headers.pop("content-length", str(len(content))) if self.command == "HEAD" else str(len(content))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one


def _headers(answer: HTTPResponse) -> dict[str, str]:
    named = {name.lower(): value for name, value in answer.getheaders()}
    return {name: value for name, value in named.items() if name not in _HOP - {"content-length"}}


def _in_parts(name: str, body: bytes) -> tuple[str, bytes]:
    """The content type and body of an object with its name."""
    mark = uuid.uuid4().hex
    head = f"--{mark}\r\ncontent-type: application/json\r\n\r\n{json.dumps({'name': name})}\r\n--{mark}\r\n\r\n"
    return f"multipart/related; boundary={mark}", head.encode() + body + f"\r\n--{mark}--\r\n".encode()


def _xml(element: str, **values: str) -> bytes:
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in values.items())
    return f"<{element}><Bucket>b</Bucket><Key>k</Key>{inner}</{element}>".encode()


if __name__ == "__main__":
    main(*sys.argv[1:])
