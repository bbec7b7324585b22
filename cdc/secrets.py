"""Secrets that change while a program runs: asked for again where a login with them is refused."""

import threading
from collections.abc import Callable
from typing import Any

from pydantic import SecretStr

from cdc.core.errors import UnreachableError


class SecretUnavailableError(UnreachableError):
    """The place of a secret does not give one now; a later attempt may succeed."""


class RenewableSecret(SecretStr):
    """A secret that knows where it came from. All settings that have it see a new value at once.

    `ask`: gives the value of now; raises SecretUnavailableError. In another process, such as a worker, it is the value
    only: there a login that is refused ends the task, and the driver asks.
    """

    def __init__(self, value: str, ask: Callable[[], str]) -> None:
        super().__init__(value)
        self._ask = ask
        self._lock = threading.Lock()

    def renew(self, refused: str) -> bool:
        """Ask for the value again, after a login with `refused`; returns whether there is another one now.

        Raises SecretUnavailableError.
        """
        with self._lock:
            # another thread may have met the same refusal
            if self._secret_value == refused:
                self._secret_value = self._ask()
            return self._secret_value != refused

    def __reduce__(self) -> tuple[Any, ...]:
        return SecretStr, (self._secret_value,)


def renew(secret: SecretStr | None, refused: str) -> bool:
    """Ask for a secret again if its place is known; returns whether there is another one than `refused` now."""
    return isinstance(secret, RenewableSecret) and secret.renew(refused)


def reveal(secret: SecretStr | None) -> str:
    """The value of a secret, empty if there is none."""
    return secret.get_secret_value() if secret else ""
