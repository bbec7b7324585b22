"""The Ed25519 key of `cdc erase`: it signs, seals, and gives erased keys names that say nothing."""

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from cdc.config.erase_settings import EraseSettings
from cdc.core.errors import ConfigurationError, PreconditionError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_MAKE = "openssl genpkey -algorithm ed25519 -out erase.pem; chmod 600 erase.pem"
_NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key of the settings. `public`: its public key in hex, by which anybody checks what it signed."""

    public: str
    _key: "Ed25519PrivateKey" = field(repr=False)
    _seed: bytes = field(repr=False)

    @classmethod
    def load(cls, settings: EraseSettings) -> Self:
        """Raises ConfigurationError without a key, or for another text; PreconditionError without its library."""
        _require_library()
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if settings.signing_key is None:
            raise ConfigurationError(
                "erase.signing_key is not set: nothing could be signed",
                f"{_MAKE}; then name it in cdc.yaml: erase: {{signing_key: '${{file:erase.pem}}'}}",
            )
        try:
            key = load_pem_private_key(settings.signing_key.get_secret_value().encode(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigurationError("erase.signing_key is no Ed25519 key as PEM without a password", _MAKE)
        return cls(key.public_key().public_bytes_raw().hex(), key, key.private_bytes_raw())

    def name(self, *parts: str) -> str:
        """A name of these texts (HMAC-SHA-256, hex), which nobody without the key computes from a guess."""
        return hmac.new(self._derive(b"names"), "\0".join(parts).encode(), hashlib.sha256).hexdigest()[:32]

    def sign(self, content: bytes) -> str:
        """The signature in hex."""
        return self._key.sign(content).hex()

    def public_pem(self) -> bytes:
        """The public key as other tools take it."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def seal(self, content: bytes, name: str) -> str:
        """Encrypt (AES-256-GCM), bound to a name; in hex."""
        import os

        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        return (nonce + AESGCM(self._derive(b"seals")).encrypt(nonce, content, name.encode())).hex()

    def unseal(self, sealed: str, name: str) -> bytes:
        """Raises PreconditionError for what another key has sealed."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        whole = bytes.fromhex(sealed)
        try:
            return AESGCM(self._derive(b"seals")).decrypt(whole[:_NONCE_BYTES], whole[_NONCE_BYTES:], name.encode())
        except InvalidTag:
            raise PreconditionError(
                "the erasure that was begun was sealed with another key", "put erase.signing_key back until it is done"
            ) from None

    def _derive(self, purpose: bytes) -> bytes:
        # HKDF-Expand with one block (RFC 5869): the seed is uniform already
        return hmac.new(self._seed, b"cdc erase " + purpose + b"\x01", hashlib.sha256).digest()


def is_signed(content: bytes, public: str, signature: str) -> bool:
    """Does the signature belong to the content and the public key, both in hex? Raises as `SigningKey.load`."""
    _require_library()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _require_library() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise PreconditionError(
            "what signs and checks erasures is not installed", "pip install 'cdc-toolkit[erase]'"
        ) from None
