"""The token of those who may act, or read from another machine.

It is in the fragment of the address that `cdc serve` prints, which no browser sends; the page exchanges it for a cookie
that no script reads. The cookie is derived from the token, so that it outlives a restart with the same token.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """`text`: at least 128 bits that nobody guesses."""

    text: str

    @classmethod
    def make(cls) -> "Token":
        return cls(secrets.token_urlsafe(24))

    def __repr__(self) -> str:
        return "Token(…)"

    def is_given_by(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.text.encode())

    @property
    def cookie(self) -> str:
        """What a browser keeps instead of the token."""
        return hmac.new(self.text.encode(), b"cdc serve", hashlib.sha256).hexdigest()

    def is_cookie(self, value: str | None) -> bool:
        return value is not None and hmac.compare_digest(value.encode(), self.cookie.encode())
