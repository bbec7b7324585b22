"""Certificates, keys and tokens of a run, as real as anybody's: made once, in a folder that all processes share."""

import base64
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509 import load_pem_x509_certificate

STORE_WORD = "storeword"
"""Java opens no store of keys without a word."""
ISSUER, AUDIENCE, KEY_ID = "https://tokens.example", "kafka", "of-a-test"


@dataclass(frozen=True)
class Identity:
    """A certificate with its chain, and its key: PEM files, the key as PKCS #8 and as older programs write it."""

    certificate: Path
    key: Path
    old_key: Path


@dataclass(frozen=True)
class Authority:
    """An authority in a folder; nobody else knows it."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def jwks(self) -> Path:
        return self.folder / "jwks.json"

    @property
    def truststore(self) -> Path:
        return self.folder / "trust.p12"

    @property
    def keystore(self) -> Path:
        """The servers' own key and certificate."""
        return self.folder / "server.p12"

    def make(self) -> None:
        """Make what servers need, unless it is there."""
        if self.jwks.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        made = trustme.CA(key_type=trustme.KeyType.RSA)
        made.cert_pem.write_to_path(str(self.ca))
        made.private_key_pem.write_to_path(str(self.folder / "ca.key"))
        server = self.issue("server", "localhost", "127.0.0.1")
        chain = load_pem_x509_certificate(server.certificate.read_bytes())
        key, word = load_pem_private_key(server.key.read_bytes(), None), BestAvailableEncryption(STORE_WORD.encode())
        assert isinstance(key, rsa.RSAPrivateKey)
        self.keystore.write_bytes(serialize_key_and_certificates(b"server", key, chain, None, word))
        ca = load_pem_x509_certificate(self.ca.read_bytes())
        self.truststore.write_bytes(serialize_java_truststore([PKCS12Certificate(ca, b"ca")], word))
        self._make_token_key()

    def issue(
        self, name: str, *hosts: str, role: str | None = None, days: int = 30, elliptic: bool = False
    ) -> Identity:
        """A certificate for hosts, or for who is named `role`; `days`: until it ends, which may have been."""
        ca = trustme.CA.from_pem(self.ca.read_bytes(), (self.folder / "ca.key").read_bytes())
        ends = datetime.now(UTC) + timedelta(days=days)
        kind = trustme.KeyType.ECDSA if elliptic else trustme.KeyType.RSA
        made = ca.issue_cert(
            *(hosts or ("client.example",)),
            common_name=role,
            not_before=ends - timedelta(days=60),
            not_after=ends,
            key_type=kind,
        )
        found = Identity(*(self.folder / f"{name}.{end}" for end in ("pem", "key", "old.key")))
        found.certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        made.private_key_pem.write_to_path(str(found.old_key))
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        found.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        for each in (found.key, found.old_key):
            each.chmod(0o600)
        return found

    def token(self, subject: str, scopes: Sequence[str] = ("kafka",), seconds: int = 600) -> str:
        """A signed token, as a server of tokens gives it out (RFC 7519)."""
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": subject,
            "scope": " ".join(scopes),
            "iat": now,
            "exp": now + seconds,
        }
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = ".".join(_encode(json.dumps(part).encode()) for part in (head, claims))
        key = load_pem_private_key((self.folder / "token.key").read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        return f"{signed}.{_encode(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def _make_token_key(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / "token.key").write_bytes(text)
        numbers = key.public_key().public_numbers()
        public = {"n": _encode(numbers.n.to_bytes(256, "big")), "e": _encode(numbers.e.to_bytes(3, "big"))}
        known = {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, **public}]}
        self.jwks.write_text(json.dumps(known))


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
